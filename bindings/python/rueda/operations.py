"""What the frameworks' functions share: reduce operators, codecs, names, and the calls that enqueue."""

import operator
from typing import Any, NamedTuple, Optional, Sequence, Tuple

from rueda import errors
from rueda._native import ffi, lib
from rueda.arguments import warn_user
from rueda.handles import Handle
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

REDUCTIONS = frozenset((ALLREDUCE, REDUCESCATTER))

CODEC_DEFAULT = lib.RUEDA_CODEC_DEFAULT
CODEC_NONE = lib.RUEDA_CODEC_NONE

# (address, dtype, extents): what the library needs to know of a tensor.
View = Tuple[int, int, Sequence[int]]


class Options(NamedTuple):
    """How an operation runs: the fields of rueda_py_options in native/calls.h, in its order. cffi fills the one from the other."""

    kind: int
    process_set: int  # its number
    op: int = 0  # the reduce operator
    rank: int = 0  # the root, or the other rank of a message: a rank of the job
    codec: int = CODEC_NONE
    prescale: float = 1.0
    postscale: float = 1.0


# Bytes of an element that has no dtype of the library's: what rueda_py_start and the others have room for.
_MOST_ELEMENT_BYTES = (1 << 23) - 1


def dtype_to_move(what: str, element_bytes: int) -> int:
    """The number for elements that the library does not know, and only moves. ValueError, with `what` they are: too large ones."""
    if not 1 <= element_bytes <= _MOST_ELEMENT_BYTES:
        raise ValueError(f"dtype {what} has elements of {element_bytes} bytes; 1 to {_MOST_ELEMENT_BYTES} can be moved")
    return lib.RUEDA_OPAQUE | element_bytes << 8


def reduce_op(average: Optional[bool], op: Optional[int]) -> int:
    """The operator that `average=` and `op=` mean together; neither: Average. ValueError: both, or no operator."""
    if average is not None:
        if op is not None:
            raise ValueError("average= and op= are both given; op= alone says it")
        warn_user("average= is deprecated, use op=Average or op=Sum", DeprecationWarning)
        return Average if average else Sum
    if op is None:
        return Average
    if type(op) is not int or op not in _OPS:
        raise ValueError(f"op={op!r}: Average, Sum, Adasum, Min, Max, Product, BitAnd, BitOr and BitXor are the operators")
    return op


def encode_name(name: Any) -> Any:
    """The name as the library takes it; None: matched by kind and order of the calls. ValueError: no UTF-8, or a NUL in it."""
    if name is None:
        return ffi.NULL
    text = str(name)
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"name={text!r:.60}: character {error.start} is half of a surrogate pair, which UTF-8 does not have") from None
    if b"\0" in encoded:
        raise ValueError(f"name={text!r:.60}: character {text.index(chr(0))} is NUL, where names end")
    return encoded


def start_group(session: Session, name: Any, options: Options, views: Sequence[View], outputs: Sequence[int]) -> int:
    """Enqueues all tensors as one group, or none of them. Returns what Handle takes. outputs: an address for each tensor."""
    tensors = [(address, dtype, len(extents)) for address, dtype, extents in views]
    extents = [extent for view in views for extent in view[2]]
    return lib.rueda_py_start_group(session.pointer, encode_name(name), options, len(views), tensors, extents, outputs)


def source_of(handle: Handle) -> int:
    """The rank of the job that sent what a handle has just received. For use in a handle's `finish`."""
    rank = ffi.new("int32_t*")
    errors.check(lib.rueda_source(handle.number, rank))
    return rank[0]


def start_join(session: Session, process_set: int) -> Handle:
    """This rank has no more to give in the set. The result is the rank that joined last."""

    def finish(handle: Handle) -> int:
        session.joins[process_set] += 1
        last = ffi.new("int32_t*")
        errors.check(lib.rueda_last_joined(handle.number, last))
        return last[0]

    return Handle(session, lib.rueda_py_start_join(session.pointer, process_set), None, finish)


def root_of(root: Any) -> int:
    """The root as an int; whether the set has this rank is the library's to say. ValueError: it is no integer."""
    try:
        return operator.index(root)
    except TypeError:
        raise ValueError(f"root_rank={root!r:.60}: a {type(root).__name__}, the number of a rank is needed") from None
