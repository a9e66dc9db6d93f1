"""Collectives of rows: they move or reduce along dimension 0. Its extent may differ between ranks.

Outputs are memory of the library, without a copy; it is freed with the array.
"""

from typing import Any, Callable, List, Optional, Sequence

import numpy

from rueda import names, operations
from rueda._native import ffi, lib
from rueda.arguments import splits_of
from rueda.handles import Handle, enqueue
from rueda.numpy.arrays import array_of, in_place, listed, view_of
from rueda.numpy.compression import Compression, reduced
from rueda.numpy.elementwise import reduction
from rueda.operations import ALLGATHER, ALLTOALL, CODEC_NONE, REDUCESCATTER, Average, Options, encode_name, make_options
from rueda.outputs import received_splits, take_outputs
from rueda.process_sets import ProcessSet, global_process_set, id_of, ranks_of
from rueda.session import current


def _rows(array: Any) -> numpy.ndarray:
    """The array as rows: an array without dimensions is one row."""
    source = array_of(array)
    return source.reshape(1) if source.ndim == 0 else source


def _take(handle: Handle, inputs: Sequence[numpy.ndarray]) -> List[numpy.ndarray]:
    """The outputs of a finished handle as arrays of the inputs' dtypes."""
    taken = take_outputs(handle, [array.dtype.itemsize for array in inputs])
    return [numpy.empty(shape, like.dtype) if memory is None else numpy.frombuffer(memory, like.dtype).reshape(shape)
            for (memory, shape), like in zip(taken, inputs)]  # fmt: skip


def _start(name: Optional[str], options: Options, source: numpy.ndarray, finish: Callable[[Handle], Any],
           splits: Optional[Sequence[int]] = None) -> Handle:
    session = current()
    address, dtype, extents = view_of(source, options.kind)
    encoded = encode_name(name)
    claimed = names.claim(session, encoded, options)
    view, counts = (address, dtype, source.ndim), ffi.NULL if splits is None else splits
    arguments = session.pointer, encoded, options, view, extents, 0, ffi.NULL, counts
    return enqueue(Handle, session, lib.rueda_py_start_rows, arguments, source, finish, None, claimed)


def _start_group(name: Optional[str], options: Options, arrays: Sequence[Any]) -> Handle:
    session, sources = current(), [_rows(array) for array in listed(arrays)]
    views = [view_of(source, options.kind) for source in sources]
    return operations.start_group(Handle, session, name, options, views, [0] * len(views), sources, lambda handle: _take(handle, sources))


def allgather_async(tensor: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Handle:
    """Concatenates the rows of all ranks, in the order of ranks, to a new array.

    Dimension 0 may differ between ranks; the other dimensions and the dtype must be equal. An array without dimensions
    is one row.
    """
    source = _rows(tensor)
    return _start(name, make_options(ALLGATHER, id_of(process_set)), source, lambda handle: _take(handle, [source])[0])


def allgather(tensor: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> numpy.ndarray:
    """allgather_async() and its result."""
    return allgather_async(tensor, name, process_set).wait()


def grouped_allgather_async(tensors: Sequence[Any], name: Optional[str] = None,
                            process_set: ProcessSet = global_process_set) -> Handle:
    """allgather_async() of several arrays as one group. The result is a list of arrays."""
    return _start_group(name, make_options(ALLGATHER, id_of(process_set)), tensors)


def grouped_allgather(tensors: Sequence[Any], name: Optional[str] = None,
                      process_set: ProcessSet = global_process_set) -> List[numpy.ndarray]:
    """grouped_allgather_async() and its result."""
    return grouped_allgather_async(tensors, name, process_set).wait()


def alltoall_async(tensor: Any, splits: Any = None, name: Optional[str] = None,
                   process_set: ProcessSet = global_process_set) -> Handle:
    """Sends the next splits[r] rows to each rank r of the set. The result is the rows received, in the order of ranks.

    splits: an integer for each rank, which add up to the rows of the array. The result then is the pair (output,
    received_splits). With None every rank gets the same number of rows, and the result is the output alone.
    """
    source, ranks = _rows(tensor), len(ranks_of(process_set))
    counts = None if splits is None else splits_of(splits, ranks)

    def finish(handle: Handle) -> Any:
        if counts is None:
            return _take(handle, [source])[0]
        received = numpy.array(received_splits(handle.number, ranks), numpy.int64)
        return _take(handle, [source])[0], received

    return _start(name, make_options(ALLTOALL, id_of(process_set)), source, finish, counts)


def alltoall(tensor: Any, splits: Any = None, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Any:
    """alltoall_async() and its result."""
    return alltoall_async(tensor, splits, name, process_set).wait()


def _with_rows(source: numpy.ndarray) -> numpy.ndarray:
    if source.ndim == 0:
        raise ValueError("a reduce-scatter deals out rows, and an array of no dimension has none; use allreduce()")
    return source


def _scatter(op: Any, codec: int, process_set: ProcessSet, prescale: float, postscale: float) -> Options:
    return reduction(REDUCESCATTER, operations.reduce_op(None, op), codec, process_set, prescale, postscale)


def _start_scatter(tensor: Any, name: Optional[str], options: Options) -> Handle:
    source = _with_rows(array_of(tensor))
    return _start(name, options, source, lambda handle: _take(handle, [source])[0])


def reducescatter_async(tensor: Any, name: Optional[str] = None, op: int = Average,
                        process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                        postscale_factor: float = 1.0) -> Handle:
    """Reduces arrays of one shape and dtype, and gives each rank a part of the rows of the result.

    Each rank gets the same number of rows; if they cannot be divided evenly, the first ranks get one more.
    """
    return _start_scatter(tensor, name, _scatter(op, CODEC_NONE, process_set, prescale_factor, postscale_factor))


def reducescatter(tensor: Any, name: Optional[str] = None, compression: Any = Compression.none, op: int = Average,
                  process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> numpy.ndarray:
    """reducescatter_async() and its result. compression: as for allreduce()."""

    def reduce(tensors: Sequence[Any], codec: int) -> List[numpy.ndarray]:
        return [_start_scatter(tensors[0], name, _scatter(op, codec, process_set, prescale_factor, postscale_factor)).wait()]

    return reduced(reduce, [tensor], compression)[0]


def reducescatter_async_(tensor: numpy.ndarray, name: Optional[str] = None, op: int = Average,
                         process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                         postscale_factor: float = 1.0) -> Handle:
    """reducescatter_async() in place. The result is a view of this rank's rows of the array; its other rows are then
    unspecified."""
    session = current()
    _with_rows(in_place(tensor))
    options = _scatter(op, CODEC_NONE, process_set, prescale_factor, postscale_factor)
    whole, extra = divmod(tensor.shape[0], process_set.size())
    position = process_set.rank()
    first = position * whole + min(position, extra)
    own = tensor[first : first + whole + (position < extra)]
    address, dtype, extents = view_of(tensor, REDUCESCATTER)
    encoded = encode_name(name)
    claimed = names.claim(session, encoded, options)
    view = address, dtype, tensor.ndim
    arguments = session.pointer, encoded, options, view, extents, own.ctypes.data, own.shape, ffi.NULL
    return enqueue(Handle, session, lib.rueda_py_start_rows, arguments, own, None, None, claimed)


def reducescatter_(tensor: numpy.ndarray, name: Optional[str] = None, op: int = Average,
                   process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                   postscale_factor: float = 1.0) -> numpy.ndarray:
    """reducescatter_async_() and its result."""
    return reducescatter_async_(tensor, name, op, process_set, prescale_factor, postscale_factor).wait()


def _start_scatter_group(tensors: Sequence[Any], name: Optional[str], options: Options) -> Handle:
    return _start_group(name, options, [_with_rows(array_of(tensor)) for tensor in tensors])


def grouped_reducescatter_async(tensors: Sequence[Any], name: Optional[str] = None, op: int = Average,
                                process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> Handle:
    """reducescatter_async() of several arrays as one group. The result is a list of arrays."""
    options = _scatter(op, CODEC_NONE, process_set, prescale_factor, postscale_factor)
    return _start_scatter_group(listed(tensors), name, options)


def grouped_reducescatter(tensors: Sequence[Any], name: Optional[str] = None, compression: Any = Compression.none,
                          op: int = Average, process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> List[numpy.ndarray]:
    """grouped_reducescatter_async() and its result. compression: as for allreduce()."""

    def reduce(given: Sequence[Any], codec: int) -> List[numpy.ndarray]:
        return _start_scatter_group(given, name, _scatter(op, codec, process_set, prescale_factor, postscale_factor)).wait()

    return reduced(reduce, listed(tensors), compression)
