"""All-reduce and broadcast: the result has the shape of the array."""

from typing import Any, List, Optional, Sequence, Tuple

import numpy

from rueda import names, operations
from rueda._native import lib
from rueda.handles import Handle, enqueue
from rueda.numpy.arrays import array_of, dtype_number, in_place, listed, view_of
from rueda.numpy.compression import Compression, reduced
from rueda.operations import ALLREDUCE, BROADCAST, CODEC_NONE, Options, make_options
from rueda.process_sets import ProcessSet, global_process_set, id_of
from rueda.session import current


def start(options: Options, array: numpy.ndarray, output: numpy.ndarray, name: Any) -> Handle:
    """Enqueues an operation with `output` as its result."""
    session = current()
    tensor, encoded = (array.ctypes.data, dtype_number(array, options.kind), array.ndim), operations.encode_name(name)
    claimed = names.claim(session, encoded, options)
    arguments = session.pointer, encoded, options, tensor, array.shape, output.ctypes.data
    return enqueue(Handle, session, lib.rueda_py_start, arguments, (output, array), lambda handle: output, None, claimed)


def reduction(kind: int, op: int, codec: int, process_set: ProcessSet, prescale: float, postscale: float) -> Options:
    """The options of a reduction."""
    return make_options(kind, id_of(process_set), op, 0, codec, prescale, postscale)


def dense(tensor: Any) -> Tuple[numpy.ndarray, numpy.ndarray]:
    """The array, copied if it is not C-contiguous, and a new array like it."""
    source = array_of(tensor)
    return source, numpy.empty_like(source)


def _start_group(name: Optional[str], options: Options, sources: Sequence[numpy.ndarray], outputs: List[numpy.ndarray]) -> Handle:
    session = current()
    views = [view_of(source, options.kind) for source in sources]
    addresses = [output.ctypes.data for output in outputs]
    return operations.start_group(Handle, session, name, options, views, addresses, (sources, outputs), lambda handle: outputs)


def allreduce_async(tensor: Any, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
                    prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set) -> Handle:
    """Reduces arrays of one shape and dtype element by element. The result is a new array with the same bits on every
    rank.

    op, average, prescale_factor, postscale_factor: as for rueda.torch.allreduce_async().
    """
    options = reduction(ALLREDUCE, operations.reduce_op(average, op), CODEC_NONE, process_set, prescale_factor, postscale_factor)
    return start(options, *dense(tensor), name)


def allreduce(tensor: Any, average: Optional[bool] = None, name: Optional[str] = None, compression: Any = Compression.none,
              op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> numpy.ndarray:
    """allreduce_async() and its result. compression: Compression.none, fp16 or bf16, or a class with compress() and
    decompress()."""
    op = operations.reduce_op(average, op)

    def reduce(tensors: Sequence[Any], codec: int) -> List[numpy.ndarray]:
        options = reduction(ALLREDUCE, op, codec, process_set, prescale_factor, postscale_factor)
        return [start(options, *dense(tensors[0]), name).wait()]

    return reduced(reduce, [tensor], compression)[0]


def allreduce_async_(tensor: numpy.ndarray, average: Optional[bool] = None, name: Optional[str] = None,
                     op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> Handle:
    """allreduce_async() into the array itself, which is the result."""
    in_place(tensor)
    options = reduction(ALLREDUCE, operations.reduce_op(average, op), CODEC_NONE, process_set, prescale_factor, postscale_factor)
    return start(options, tensor, tensor, name)


def allreduce_(tensor: numpy.ndarray, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
               prescale_factor: float = 1.0, postscale_factor: float = 1.0,
               process_set: ProcessSet = global_process_set) -> numpy.ndarray:
    """allreduce_async_() and its result."""
    return allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set).wait()


def broadcast_async(tensor: Any, root_rank: int, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> Handle:
    """Copies the root's array to a new array on every rank. All ranks give an array of the root's shape and dtype.

    Any dtype without Python objects can be sent. Structured dtypes, text and dates are compared between ranks only by
    the size of an element. root_rank: a rank of the job, even within a process set.
    """
    root_rank = operations.root_of(root_rank)
    source, output = dense(tensor)
    return start(make_options(BROADCAST, id_of(process_set), rank=root_rank), source, output, name)


def broadcast(tensor: Any, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> numpy.ndarray:
    """broadcast_async() and its result."""
    return broadcast_async(tensor, root_rank, name, process_set).wait()


def broadcast_(tensor: numpy.ndarray, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> numpy.ndarray:
    """broadcast() into the array itself, which it returns."""
    return broadcast_async_(tensor, root_rank, name, process_set).wait()


def broadcast_async_(tensor: numpy.ndarray, root_rank: int, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Handle:
    """broadcast_async() into the array itself, which is the result."""
    in_place(tensor)
    return start(make_options(BROADCAST, id_of(process_set), rank=operations.root_of(root_rank)), tensor, tensor, name)


def grouped_allreduce_async(tensors: Sequence[Any], average: Optional[bool] = None, name: Optional[str] = None,
                            op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> Handle:
    """allreduce_async() of several arrays as one group, which is enqueued whole or not at all. The result is a list of
    arrays."""
    sources = [array_of(tensor) for tensor in listed(tensors)]
    options = reduction(ALLREDUCE, operations.reduce_op(average, op), CODEC_NONE, process_set, prescale_factor, postscale_factor)
    return _start_group(name, options, sources, [numpy.empty_like(source) for source in sources])


def grouped_allreduce(tensors: Sequence[Any], average: Optional[bool] = None, name: Optional[str] = None,
                      compression: Any = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> List[numpy.ndarray]:
    """grouped_allreduce_async() and its result. compression: as for allreduce()."""
    op = operations.reduce_op(average, op)

    def reduce(given: Sequence[Any], codec: int) -> List[numpy.ndarray]:
        sources = [array_of(tensor) for tensor in given]
        options = reduction(ALLREDUCE, op, codec, process_set, prescale_factor, postscale_factor)
        return _start_group(name, options, sources, [numpy.empty_like(source) for source in sources]).wait()

    return reduced(reduce, listed(tensors), compression)


def grouped_allreduce_async_(tensors: Sequence[numpy.ndarray], average: Optional[bool] = None, name: Optional[str] = None,
                             op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                             process_set: ProcessSet = global_process_set) -> Handle:
    """grouped_allreduce_async() into the arrays themselves. Their list is the result."""
    changed = [in_place(tensor) for tensor in listed(tensors)]
    options = reduction(ALLREDUCE, operations.reduce_op(average, op), CODEC_NONE, process_set, prescale_factor, postscale_factor)
    return _start_group(name, options, changed, changed)


def grouped_allreduce_(tensors: Sequence[numpy.ndarray], average: Optional[bool] = None, name: Optional[str] = None,
                       op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> List[numpy.ndarray]:
    """grouped_allreduce_async_() and its result."""
    return grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set).wait()
