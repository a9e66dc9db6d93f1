"""Copies of a state_dict() in the memory of the copy before.

    value --which tensors fit--> memory of the kept copy, and a deep copy of all else --write--> the new copy

A copy of its own for each commit would need the memory twice while both exist. The C library gives blocks of that size back to the
kernel, so each commit would also fault every page in anew. Nothing of the kept copy changes before all else is copied: a value that
cannot be copied, or a lack of memory, leaves it whole.
"""

import copy
from typing import Any, Callable, Dict, Iterator, List, Set, Tuple

import torch

Pair = Tuple[torch.Tensor, torch.Tensor]
_DTYPES = {torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.int64, torch.int32, torch.int16,
           torch.int8, torch.uint8, torch.bool}  # PyTorch copies elements of these; of some types it knows little but the name
_storage_of: Callable[[torch.Tensor], Any] = getattr(torch.Tensor, "untyped_storage", torch.Tensor.storage)  # PyTorch 1.13 has storage() alone


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
        self.replace(copied(value, self._copy, self._tear))

    def replace(self, made: Any) -> None:
        """Keeps this object instead of a copy that save() makes."""
        self._copy, self._is_whole = made, True

    def _tear(self) -> None:
        self._is_whole = False


def copied(value: Any, into: Any, begin: Callable[[], None] = lambda: None) -> Any:
    """A deep copy of the value, in the memory of the tensors of `into` as far as they fit. begin: called before any of them changes,
    when all else is copied."""
    pairs = _fitting(value, into)
    made = copy.deepcopy(value, {id(new): old for new, old in pairs})
    begin()
    with torch.no_grad():
        for new, old in pairs:
            old.copy_(new)
    return made


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
