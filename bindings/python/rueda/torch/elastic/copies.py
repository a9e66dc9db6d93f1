"""Copies of a state_dict() in the memory of the copy before.

    value --which tensors fit--> memory of the kept copy, and a deep copy of all else --write--> the new copy

A copy of its own for each commit would need the memory twice while both exist. The C library gives blocks of that size back to the
kernel, so each commit would also fault every page in anew. Nothing of the kept copy changes before all else is copied: a value that
cannot be copied, or a lack of memory, leaves it whole.
"""

import collections
import concurrent.futures
import contextlib
import contextvars
import copy
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, Set, Tuple

import torch

from rueda._native import lib

Pair = Tuple[torch.Tensor, torch.Tensor]
Writer = Callable[[torch.Tensor, torch.Tensor], None]
_DTYPES = {torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.int64, torch.int32, torch.int16,
           torch.int8, torch.uint8, torch.bool}  # PyTorch copies elements of these; of some types it knows little but the name
_storage_of: Callable[[torch.Tensor], Any] = getattr(torch.Tensor, "untyped_storage", torch.Tensor.storage)  # PyTorch 1.13 has storage() alone

_PIECE = 1 << 22  # elements of a tensor that one thread copies at a time
_LONG = 1 << 16  # bytes; a shorter tensor is copied sooner than another thread has begun
_MUCH = 32 << 20  # bytes of a copy that no cache keeps until they are read again
_threads: "contextvars.ContextVar[int]" = contextvars.ContextVar("rueda copies", default=1)


class Kept:
    """The latest copy of a value that consists of dictionaries, lists, tensors and plain objects."""

    def __init__(self) -> None:
        self._copy: Any = None
        self._is_whole = False

    @property
    def copy(self) -> Any:
        """The copy itself. Raises RuntimeError if an exception has interrupted the latest save() between two tensors."""
        if not self._is_whole:
            raise RuntimeError("an exception, such as KeyboardInterrupt, has interrupted the latest save of this value; save it again")
        return self._copy

    def save(self, value: Any) -> None:
        """Copies the value. Tensors that were there at the last save, with the same type, shape and strides, go into the same
        memory again."""
        self.replace(copied(value, self._copy, self._tear, private=True))

    def replace(self, made: Any) -> None:
        """Keeps this object instead of a copy that save() makes."""
        self._copy, self._is_whole = made, True

    def _tear(self) -> None:
        self._is_whole = False


def copied(value: Any, into: Any, begin: Callable[[], None] = lambda: None, private: bool = False) -> Any:
    """A deep copy of the value, in the memory of the tensors of `into` as far as they fit. begin: called before any of them changes,
    when all else is copied. private: no tensor of `into` is part of a graph, which would have to know that it changes."""
    pairs = _fitting(value, into)
    made = copy.deepcopy(value, {id(new): old for new, old in pairs})
    begin()
    _write(pairs, private)
    return made


@contextlib.contextmanager
def spread_over(threads: int) -> Iterator[None]:
    """Lets this thread's copies be written by so many threads, unless PyTorch itself uses several. For a rank whose copy others
    wait for: if all ranks copy at once, more threads would not make it faster."""
    token = _threads.set(threads)
    try:
        yield
    finally:
        _threads.reset(token)


def _write(pairs: List[Pair], private: bool) -> None:
    """Copies the first tensor of each pair into the second."""
    long = [pair for pair in pairs if pair[0].device.type == "cpu" and _bytes(pair[0]) >= _LONG]
    write = _copy_past_cache if private and sum(_bytes(new) for new, _ in long) >= _MUCH else _copy
    threads = _threads.get() if torch.get_num_threads() == 1 else 1
    spread = {id(new) for new, _ in long}
    for pair in pairs:
        if id(pair[0]) not in spread:  # on a device, too: another thread's stream there would not wait for this one's
            _copy(*pair)
    if threads > 1 and long:
        return _write_by(threads, write, long)
    for pair in long:
        write(*pair)


def _write_by(threads: int, write: Writer, pairs: List[Pair]) -> None:
    """Copies the pairs with several threads. All have ended when this returns or raises, unless a second KeyboardInterrupt comes."""
    left = collections.deque(piece for pair in pairs for piece in _pieces(*pair))
    pool = concurrent.futures.ThreadPoolExecutor(threads, "rueda-copy")
    writers: List[Any] = []
    try:
        try:
            for _ in range(threads):
                writers.append(pool.submit(_write_some, write, left))
        except RuntimeError:  # the system has no further thread to give
            _write_some(write, left)
        for writer in writers:
            writer.result()
    finally:
        left.clear()
        pool.shutdown()


def _write_some(write: Writer, left: Deque[Pair]) -> None:
    """Copies what no other thread has begun."""
    while left:
        try:
            pair = left.popleft()
        except IndexError:  # another thread was faster
            return
        write(*pair)


def _pieces(new: torch.Tensor, old: torch.Tensor) -> Iterable[Pair]:
    """The pair in pieces for several threads. Both have the same strides."""
    if new.numel() <= _PIECE or not new.is_contiguous():
        return [(new, old)]
    return zip(new.detach().view(-1).split(_PIECE), old.detach().view(-1).split(_PIECE))


def _copy(new: torch.Tensor, old: torch.Tensor) -> None:
    with torch.no_grad():  # which each thread has for itself
        old.copy_(new)


def _copy_past_cache(new: torch.Tensor, old: torch.Tensor) -> None:
    """Copies past the cache what nobody reads soon. A store through it would push out other things, and first read what it overwrites."""
    if not new.is_contiguous():
        return _copy(new, old)
    lib.rueda_py_copy(old.data_ptr(), new.data_ptr(), _bytes(new))


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _fitting(value: Any, kept: Any) -> List[Pair]:
    """Pairs of a tensor of the value and a kept one, whose memory can take it. No kept memory takes two that have ceased to share
    theirs, and none that the value lies in itself."""
    pairs = [pair for pair in _counterparts(value, kept, set()) if _is_plain(pair[0]) and _is_plain(pair[1]) and _kind(pair[0]) == _kind(pair[1])]
    sources: Dict[int, Set[int]] = {}  # of each kept memory
    for new, old in pairs:
        sources.setdefault(_memory(old), set()).add(_memory(new))
    lives = {_memory(each) for each in _tensors_of(value) if _is_plain(each)}
    return [(new, old) for new, old in pairs if len(sources[_memory(old)]) == 1 and _memory(old) not in lives]


def _counterparts(value: Any, kept: Any, seen: Set[int]) -> Iterator[Pair]:
    """The tensors at the same places of two values. seen: the containers so far, which may contain themselves."""
    if isinstance(value, torch.Tensor):
        if isinstance(kept, torch.Tensor):
            yield value, kept
    elif id(value) not in seen and isinstance(value, (dict, list, tuple)):
        seen.add(id(value))
        if isinstance(value, dict) and isinstance(kept, dict):
            for key in value.keys() & kept.keys():
                yield from _counterparts(value[key], kept[key], seen)
        elif isinstance(value, (list, tuple)) and isinstance(kept, (list, tuple)):
            for inner, other in zip(value, kept):
                yield from _counterparts(inner, other, seen)


def _tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in dictionaries, lists and tuples."""
    return (tensor for tensor, _ in _counterparts(value, value, set()))


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether the tensor is nothing but elements in memory, each at a place of its own. A class of its own, or a lazy, sparse or
    quantized one, may have more."""
    return (type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided and not tensor.is_quantized
            and tensor.dtype in _DTYPES and not tensor.is_inference() and not tensor.is_conj() and not tensor.is_neg() and tensor.device.type != "meta"
            and all(stride != 0 for size, stride in zip(tensor.shape, tensor.stride()) if size > 1))  # fmt: skip


def _kind(tensor: torch.Tensor) -> Tuple[Any, ...]:
    return (type(tensor), tensor.dtype, tensor.device, tensor.shape, tensor.stride(), tensor.storage_offset(), _storage_of(tensor).nbytes(),
            tensor.requires_grad)  # fmt: skip


def _memory(tensor: torch.Tensor) -> int:
    return _storage_of(tensor).data_ptr()
