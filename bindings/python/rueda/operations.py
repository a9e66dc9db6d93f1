"""What the functions of all frameworks share: reduce operators, codecs, options, names, and calls that enqueue."""

import contextlib
import contextvars
import functools
import operator
from typing import Any, Callable, Iterator, Optional, Sequence, Tuple

from rueda import errors, names
from rueda._native import ffi, lib
from rueda.arguments import warn_user
from rueda.handles import Handle, enqueue
from rueda.session import Session

Average = lib.RUEDA_AVERAGE
Sum = lib.RUEDA_SUM
Adasum = lib.RUEDA_ADASUM
Min = lib.RUEDA_MIN
Max = lib.RUEDA_MAX
Product = lib.RUEDA_PRODUCT
BitAnd = lib.RUEDA_BAND
BitOr = lib.RUEDA_BOR
BitXor = lib.RUEDA_BXOR

_OPS = frozenset((Average, Sum, Adasum, Min, Max, Product, BitAnd, BitOr, BitXor))

ALLREDUCE = lib.RUEDA_PY_ALLREDUCE
BROADCAST = lib.RUEDA_PY_BROADCAST
REDUCE = lib.RUEDA_PY_REDUCE
ALLGATHER = lib.RUEDA_PY_ALLGATHER
ALLTOALL = lib.RUEDA_PY_ALLTOALL
REDUCESCATTER = lib.RUEDA_PY_REDUCESCATTER
GATHER = lib.RUEDA_PY_GATHER
SCATTER = lib.RUEDA_PY_SCATTER
SEND = lib.RUEDA_PY_SEND
RECV = lib.RUEDA_PY_RECV

SAME_ROWS = lib.RUEDA_PY_SAME_ROWS  # the operator of an all-gather to which all ranks give as many rows

REDUCTIONS = frozenset((ALLREDUCE, REDUCESCATTER))

CODEC_DEFAULT = lib.RUEDA_CODEC_DEFAULT
CODEC_NONE = lib.RUEDA_CODEC_NONE

# (address, dtype, extents): what the library needs to know of a tensor.
View = Tuple[int, int, Sequence[int]]


# A rueda_py_options of native/calls.h: how an operation runs. It is shared, and never changed.
Options = Any


def make_options(kind: int, process_set: int, op: int = 0, rank: int = 0, codec: int = CODEC_NONE, prescale: float = 1.0,
                 postscale: float = 1.0) -> Options:
    """The options of an operation. process_set: its number. op: the reduce operator. rank: the root, or the other rank
    of a message, as a rank of the job.

    Options without factors are shared between calls: filling the struct takes longer than looking it up.
    """
    if prescale == 1.0 == postscale:
        return shared_options(kind, process_set, op, rank, codec)
    return ffi.new("rueda_py_options*", (kind, process_set, op, rank, codec, prescale, postscale))[0]


@functools.lru_cache(maxsize=1024, typed=True)  # 1 and 1.0 differ: cffi refuses a rank that is not an integer
def shared_options(kind: int, process_set: int, op: int, rank: int, codec: int) -> Options:
    """make_options() without factors, for a path that must be short."""
    return ffi.new("rueda_py_options*", (kind, process_set, op, rank, codec, 1.0, 1.0))[0]


# The largest element without a dtype of the library's: rueda_py_tensor has 23 bits for its bytes.
_MOST_ELEMENT_BYTES = (1 << 23) - 1


def dtype_to_move(what: str, element_bytes: int) -> int:
    """The number of a dtype that the library does not know: it moves such elements, but does not reduce them.

    Raises ValueError if elements have no bytes or more than 8388607. what: names the dtype in the sentence.
    """
    if not 1 <= element_bytes <= _MOST_ELEMENT_BYTES:
        raise ValueError(f"dtype {what} has elements of {element_bytes} bytes; only 1 to {_MOST_ELEMENT_BYTES} bytes can be moved")
    return lib.RUEDA_OPAQUE | element_bytes << 8


def reduce_op(average: Optional[bool], op: Optional[int]) -> int:
    """The operator that `average=` and `op=` mean together: Average if both are None. Raises ValueError if both are
    given, or if `op` is not an operator."""
    if average is not None:
        if op is not None:
            raise ValueError("give op= or average=, not both; average= is deprecated")
        warn_user("average= is deprecated, use op=Average or op=Sum", DeprecationWarning)
        return Average if average else Sum
    if op is None:
        return Average
    if type(op) is not int or op not in _OPS:
        raise ValueError(f"op={op!r} is not an operator; use Average, Sum, Adasum, Min, Max, Product, BitAnd, BitOr or BitXor")
    return op


def encode_name(name: Any) -> Any:
    """The name in the form that the library takes. Operations with the name None are matched by their kind and order.

    Raises ValueError if UTF-8 cannot encode the name, or if it holds a NUL character.
    """
    if name is None:
        return ffi.NULL
    text = str(name)
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"name={text!r:.60}: character {error.start} is half of a surrogate pair, which UTF-8 cannot encode") from None
    if b"\0" in encoded:
        raise ValueError(f"name={text!r:.60}: character {text.index(chr(0))} is NUL; a name cannot hold one")
    return encoded


def start_group(make: Callable[..., Handle], session: Session, name: Any, options: Options, views: Sequence[View],
                outputs: Sequence[int], loan: Any, finish: Callable[[Handle], Any]) -> Handle:
    """Enqueues all tensors as one group, or none of them. outputs: an address for each tensor. make, loan, finish: as for
    enqueue()."""
    encoded = encode_name(name)
    claimed = names.claim(session, encoded, options, len(views))
    tensors = [(address, dtype, len(extents)) for address, dtype, extents in views]
    extents = [extent for view in views for extent in view[2]]
    arguments = session.pointer, encoded, options, len(views), tensors, extents, outputs
    return enqueue(make, session, lib.rueda_py_start_group, arguments, loan, finish, None, claimed)


def source_of(handle: Handle) -> int:
    """The rank of the job that sent the message a handle has just received. For use in a handle's `finish`."""
    rank = ffi.new("int32_t*")
    errors.check(lib.rueda_source(handle.number, rank))
    return rank[0]


def start_join(session: Session, process_set: int) -> Handle:
    """Enqueues a join of this rank in the set. The handle's result is the rank that joined last."""

    def finish(handle: Handle) -> int:
        session.joins[process_set] += 1
        last = ffi.new("int32_t*")
        errors.check(lib.rueda_last_joined(handle.number, last))
        return last[0]

    return Handle(session, lib.rueda_py_start_join(session.pointer, process_set), None, finish)


_root_for_0 = contextvars.ContextVar("rueda_root_for_0", default=0)


@contextlib.contextmanager
def in_place_of_rank_0(root: int) -> Iterator[None]:
    """Inside, a call of this thread that names rank 0 as the root has `root` instead. For code of programs that knows no other root."""
    before = _root_for_0.set(root)
    try:
        yield
    finally:
        _root_for_0.reset(before)


def root_of(root: Any) -> int:
    """The root as an int. Raises ValueError if it is not an integer. The library checks that the set has this rank."""
    try:
        return operator.index(root) or _root_for_0.get()
    except TypeError:
        raise ValueError(f"root_rank={root!r:.60} is a {type(root).__name__}; give the number of a rank") from None
