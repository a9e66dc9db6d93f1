"""All-reduce and broadcast: the result has the shape of the array."""

from typing import Any, List, Optional, Sequence, Tuple

import numpy

from rueda import names, operations
from rueda._native import lib
from rueda.handles import Handle
from rueda.numpy.arrays import array_of, dtype_number, in_place, listed, view_of
from rueda.operations import ALLREDUCE, BROADCAST, CODEC_NONE, Options, make_options
from rueda.process_sets import ProcessSet, global_process_set, id_of
from rueda.session import current


def start(options: Options, array: numpy.ndarray, output: numpy.ndarray, name: Any) -> Handle:
    """Enqueues an operation with `output` as its result."""
    session = current()
    tensor, encoded = (array.ctypes.data, dtype_number(array, options.kind), array.ndim), operations.encode_name(name)
    claimed = names.claim(session, encoded, options)
    number = lib.rueda_py_start(session.pointer, encoded, options, tensor, array.shape, output.ctypes.data)
    return Handle(session, number, (output, array), lambda handle: output, None, claimed)


def reduction(kind: int, op: Optional[int], process_set: ProcessSet, prescale: float, postscale: float) -> Options:
    """The options of a reduction."""
    return make_options(kind, id_of(process_set), operations.reduce_op(None, op), 0, CODEC_NONE, prescale, postscale)


def dense(array: Any) -> Tuple[numpy.ndarray, numpy.ndarray]:
    """The array, copied if it is not C-contiguous, and a new array like it."""
    source = array_of(array)
    return source, numpy.empty_like(source)


def _start_group(name: Optional[str], options: Options, sources: Sequence[numpy.ndarray], outputs: List[numpy.ndarray]) -> Handle:
    session = current()
    views = [view_of(source, options.kind) for source in sources]
    number, claimed = operations.start_group(session, name, options, views, [output.ctypes.data for output in outputs])
    return Handle(session, number, (sources, outputs), lambda handle: outputs, None, claimed)


def allreduce_async(array: Any, name: Optional[str] = None, op: Optional[int] = None, prescale_factor: float = 1.0,
                    postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> Handle:
    """Reduces arrays of one shape and dtype element by element. The result is a new array with the same bits on every
    rank.

    op, prescale_factor, postscale_factor: as for rueda.torch.allreduce_async().
    """
    source, output = dense(array)
    return start(reduction(ALLREDUCE, op, process_set, prescale_factor, postscale_factor), source, output, name)


def allreduce(array: Any, name: Optional[str] = None, op: Optional[int] = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> numpy.ndarray:
    """allreduce_async() and its result."""
    return allreduce_async(array, name, op, prescale_factor, postscale_factor, process_set).wait()


def allreduce_async_(array: numpy.ndarray, name: Optional[str] = None, op: Optional[int] = None,
                     prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> Handle:
    """allreduce_async() into the array itself, which is the result."""
    in_place(array)
    return start(reduction(ALLREDUCE, op, process_set, prescale_factor, postscale_factor), array, array, name)


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
    source, output = dense(array)
    return start(make_options(BROADCAST, id_of(process_set), rank=root_rank), source, output, name)


def broadcast(array: Any, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> numpy.ndarray:
    """broadcast_async() and its result."""
    return broadcast_async(array, root_rank, name, process_set).wait()


def broadcast_(array: numpy.ndarray, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> numpy.ndarray:
    """broadcast() into the array itself, which it returns."""
    in_place(array)
    return start(make_options(BROADCAST, id_of(process_set), rank=operations.root_of(root_rank)), array, array, name).wait()


def broadcast_async_(array: numpy.ndarray, root_rank: int, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Handle:
    """broadcast_async() into the array itself, which is the result."""
    in_place(array)
    return start(make_options(BROADCAST, id_of(process_set), rank=operations.root_of(root_rank)), array, array, name)


def grouped_allreduce_async(arrays: Sequence[Any], name: Optional[str] = None, op: Optional[int] = None,
                            prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> Handle:
    """allreduce_async() of several arrays as one group, which is enqueued whole or not at all. The result is a list of
    arrays."""
    sources = [array_of(array) for array in listed(arrays)]
    options = reduction(ALLREDUCE, op, process_set, prescale_factor, postscale_factor)
    return _start_group(name, options, sources, [numpy.empty_like(source) for source in sources])


def grouped_allreduce(arrays: Sequence[Any], name: Optional[str] = None, op: Optional[int] = None,
                      prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set) -> List[numpy.ndarray]:
    """grouped_allreduce_async() and its result."""
    return grouped_allreduce_async(arrays, name, op, prescale_factor, postscale_factor, process_set).wait()


def grouped_allreduce_async_(arrays: Sequence[numpy.ndarray], name: Optional[str] = None, op: Optional[int] = None,
                             prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                             process_set: ProcessSet = global_process_set) -> Handle:
    """grouped_allreduce_async() into the arrays themselves. Their list is the result."""
    changed = [in_place(array) for array in listed(arrays)]
    return _start_group(name, reduction(ALLREDUCE, op, process_set, prescale_factor, postscale_factor), changed, changed)


def grouped_allreduce_(arrays: Sequence[numpy.ndarray], name: Optional[str] = None, op: Optional[int] = None,
                       prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> List[numpy.ndarray]:
    """grouped_allreduce_async_() and its result."""
    return grouped_allreduce_async_(arrays, name, op, prescale_factor, postscale_factor, process_set).wait()
