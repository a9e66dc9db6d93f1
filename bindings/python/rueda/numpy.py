"""Rueda for NumPy arrays: all-reduce, broadcast, process sets and join, with the names of rueda.torch and without
gradients.

    import rueda.numpy as hvd

    hvd.init()
    mean = hvd.allreduce(np.array([1.0, 2.0]))

A function with a name that ends in `_` works in place, on a C-contiguous array. The others copy an array that is not
contiguous, and return a new one. Every function raises ValueError for wrong arguments, with nothing enqueued, and
HorovodInternalError for later errors. Functions with _async in their name return a handle; an array is lent until its
wait() has returned. Any thread may call.
"""

from typing import Any, Optional, Tuple

import numpy

from rueda import operations
from rueda._native import lib
from rueda.diagnosis import dump, stats
from rueda.errors import (
    CollectiveError,
    CollectiveTimeoutError,
    HorovodInternalError,
    HostsUpdatedInterrupt,
    MismatchError,
    NotInitializedError,
    PeerLostError,
    ShutDownError,
    UnsupportedError,
)
from rueda.handles import Handle
from rueda.operations import (
    ALLREDUCE,
    BROADCAST,
    CODEC_NONE,
    REDUCTIONS,
    Adasum,
    Average,
    BitAnd,
    BitOr,
    BitXor,
    Max,
    Min,
    Options,
    Product,
    Sum,
    make_options,
)
from rueda.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    id_of,
    init,
    remove_process_set,
)
from rueda.session import (
    cross_rank,
    cross_size,
    current,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
)
from rueda.timeline import start_timeline, stop_timeline

__all__ = [
    "Adasum", "Average", "BitAnd", "BitOr", "BitXor", "CollectiveError", "CollectiveTimeoutError", "Handle",
    "HorovodInternalError", "HostsUpdatedInterrupt", "Max", "Min", "MismatchError", "NotInitializedError", "PeerLostError",
    "ProcessSet", "Product", "ShutDownError", "Sum", "UnsupportedError", "add_process_set", "allreduce", "allreduce_",
    "allreduce_async", "allreduce_async_", "barrier", "broadcast", "broadcast_", "broadcast_async", "cross_rank",
    "cross_size", "dump", "global_process_set", "init", "is_homogeneous", "is_initialized", "join", "local_rank",
    "local_size", "rank", "remove_process_set", "shutdown", "size", "start_timeline", "stats", "stop_timeline",
]  # fmt: skip

_DTYPES = {
    numpy.dtype(name): number
    for name, number in [
        ("uint8", lib.RUEDA_U8), ("int8", lib.RUEDA_I8), ("uint16", lib.RUEDA_U16), ("int16", lib.RUEDA_I16),
        ("uint32", lib.RUEDA_U32), ("int32", lib.RUEDA_I32), ("uint64", lib.RUEDA_U64), ("int64", lib.RUEDA_I64),
        ("float16", lib.RUEDA_F16), ("float32", lib.RUEDA_F32), ("float64", lib.RUEDA_F64), ("bool", lib.RUEDA_BOOL),
        ("complex64", lib.RUEDA_COMPLEX64), ("complex128", lib.RUEDA_COMPLEX128),
    ]
}  # fmt: skip


def _dtype_number(array: numpy.ndarray, kind: int) -> int:
    number = _DTYPES.get(array.dtype)
    if number is not None:
        return number
    if array.dtype.hasobject:
        raise ValueError(f"dtype {array.dtype} is not supported: it holds Python objects; give an array of numbers, text or dates")
    if kind in REDUCTIONS:
        names = ", ".join(map(str, _DTYPES))
        raise ValueError(f"dtype {array.dtype} can be moved, as by a broadcast, but not reduced; {names} can be reduced")
    return operations.dtype_to_move(str(array.dtype), array.dtype.itemsize)


def _start(options: Options, array: numpy.ndarray, output: numpy.ndarray, name: Any) -> Handle:
    session = current()
    tensor = array.ctypes.data, _dtype_number(array, options.kind), array.ndim
    number = lib.rueda_py_start(session.pointer, operations.encode_name(name), options, tensor, array.shape, output.ctypes.data)
    return Handle(session, number, (output, array), lambda handle: output)


def _reduction(op: Optional[int], process_set: ProcessSet, prescale: float, postscale: float) -> Options:
    return make_options(ALLREDUCE, id_of(process_set), operations.reduce_op(None, op), 0, CODEC_NONE, prescale, postscale)


def _dense(array: Any) -> Tuple[numpy.ndarray, numpy.ndarray]:
    """The array, copied if it is not C-contiguous, and a new array like it."""
    source = numpy.asarray(array, order="C")
    return source, numpy.empty_like(source)


def _in_place(array: numpy.ndarray) -> numpy.ndarray:
    if not isinstance(array, numpy.ndarray) or not array.flags.c_contiguous or not array.flags.writeable:
        raise ValueError("an operation in place needs a writeable, C-contiguous numpy.ndarray; use the one that returns a new array")
    return array


def allreduce_async(array: Any, name: Optional[str] = None, op: Optional[int] = None, prescale_factor: float = 1.0,
                    postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> Handle:
    """Reduces arrays of one shape and dtype element by element. The result is a new array with the same bits on every
    rank.

    op, prescale_factor, postscale_factor: as for rueda.torch.allreduce_async().
    """
    source, output = _dense(array)
    return _start(_reduction(op, process_set, prescale_factor, postscale_factor), source, output, name)


def allreduce(array: Any, name: Optional[str] = None, op: Optional[int] = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> numpy.ndarray:
    """allreduce_async() and its result."""
    return allreduce_async(array, name, op, prescale_factor, postscale_factor, process_set).wait()


def allreduce_async_(array: numpy.ndarray, name: Optional[str] = None, op: Optional[int] = None,
                     prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> Handle:
    """allreduce_async() into the array itself, which is the result."""
    _in_place(array)
    return _start(_reduction(op, process_set, prescale_factor, postscale_factor), array, array, name)


def allreduce_(array: numpy.ndarray, name: Optional[str] = None, op: Optional[int] = None, prescale_factor: float = 1.0,
               postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> numpy.ndarray:
    """allreduce_async_() and its result."""
    return allreduce_async_(array, name, op, prescale_factor, postscale_factor, process_set).wait()


def broadcast_async(array: Any, root_rank: int, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> Handle:
    """Copies the root's array to a new array on every rank. All ranks give an array of the root's shape and dtype.

    Any dtype without Python objects can be sent. Structured dtypes, text and dates are compared between ranks only by
    the size of an element. root_rank: a rank of the job, even within a process set.
    """
    root_rank = operations.root_of(root_rank)
    source, output = _dense(array)
    return _start(make_options(BROADCAST, id_of(process_set), rank=root_rank), source, output, name)


def broadcast(array: Any, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> numpy.ndarray:
    """broadcast_async() and its result."""
    return broadcast_async(array, root_rank, name, process_set).wait()


def broadcast_(array: numpy.ndarray, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> numpy.ndarray:
    """broadcast() into the array itself, which it returns."""
    _in_place(array)
    return _start(make_options(BROADCAST, id_of(process_set), rank=operations.root_of(root_rank)), array, array, name).wait()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Blocks until all ranks of the set have called it."""
    session = current()
    Handle(session, lib.rueda_py_start_barrier(session.pointer, id_of(process_set)), None).wait()


def join(process_set: ProcessSet = global_process_set) -> int:
    """Tells the set that this rank has no more data, as rueda.torch.join() does. Blocks until all ranks of the set have
    joined, and returns the rank that joined last."""
    return operations.start_join(current(), id_of(process_set)).wait()
