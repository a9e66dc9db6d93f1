"""The collectives, with the arguments of Horovod. All of them block. priority: ignored, since Rueda runs what is ready.

Errors: ValueError for wrong arguments, with nothing enqueued; HorovodInternalError if ranks disagree, or if a rank has
died or left.
"""

from typing import Any, List, Optional, Sequence

import rueda.numpy as arrays
from rueda import operations
from rueda.mxnet.arrays import like, listed, to_read, to_write
from rueda.operations import Average
from rueda.process_sets import ProcessSet, global_process_set


def allreduce_(tensor: Any, average: Optional[bool] = None, name: Optional[str] = None, priority: int = 0,
               prescale_factor: float = 1.0, postscale_factor: float = 1.0,
               process_set: ProcessSet = global_process_set, op: Optional[int] = None) -> Any:
    """Reduces arrays of one shape and dtype element by element, into the array itself, which it returns.

    op: Average (the default), Sum, Min, Max, Product or Adasum. average: deprecated, use op.
    """
    arrays.allreduce_(to_write(tensor), None, name, operations.reduce_op(average, op), prescale_factor, postscale_factor, process_set)
    return tensor


def allreduce(tensor: Any, average: Optional[bool] = None, name: Optional[str] = None, priority: int = 0,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set, op: Optional[int] = None) -> Any:
    """allreduce_() into a new array."""
    to_read(tensor)
    return allreduce_(tensor.copy(), average, name, priority, prescale_factor, postscale_factor, process_set, op)


def grouped_allreduce_(tensors: Sequence[Any], average: Optional[bool] = None, name: Optional[str] = None, priority: int = 0,
                       prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set, op: Optional[int] = None) -> List[Any]:
    """allreduce_() of several arrays as one group. Returns their list."""
    changed = listed(tensors)
    memory = [to_write(tensor) for tensor in changed]
    arrays.grouped_allreduce_(memory, None, name, operations.reduce_op(average, op), prescale_factor, postscale_factor, process_set)
    return changed


def grouped_allreduce(tensors: Sequence[Any], average: Optional[bool] = None, name: Optional[str] = None, priority: int = 0,
                      prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set, op: Optional[int] = None) -> List[Any]:
    """grouped_allreduce_() into new arrays."""
    copies = [tensor.copy() for tensor in listed(tensors) if to_read(tensor) is not None]
    return grouped_allreduce_(copies, average, name, priority, prescale_factor, postscale_factor, process_set, op)


def allgather(tensor: Any, name: Optional[str] = None, priority: int = 0, process_set: ProcessSet = global_process_set) -> Any:
    """Concatenates the rows of all ranks, in the order of ranks, to a new array. Dimension 0 may differ between ranks."""
    return like(arrays.allgather(to_read(tensor), name, process_set), tensor)


def grouped_allgather(tensors: Sequence[Any], name: Optional[str] = None, priority: int = 0,
                      process_set: ProcessSet = global_process_set) -> List[Any]:
    """allgather() of several arrays as one group."""
    given = listed(tensors)
    results = arrays.grouped_allgather([to_read(tensor) for tensor in given], name, process_set)
    return [like(result, tensor) for result, tensor in zip(results, given)]


def broadcast_(tensor: Any, root_rank: int, name: Optional[str] = None, priority: int = 0,
               process_set: ProcessSet = global_process_set) -> Any:
    """Overwrites the array with the root's, and returns it. root_rank: a rank of the job, even within a process set."""
    arrays.broadcast_(to_write(tensor), root_rank, name, process_set)
    return tensor


def broadcast(tensor: Any, root_rank: int, name: Optional[str] = None, priority: int = 0,
              process_set: ProcessSet = global_process_set) -> Any:
    """broadcast_() into a new array."""
    to_read(tensor)
    return broadcast_(tensor.copy(), root_rank, name, priority, process_set)


def alltoall(tensor: Any, splits: Any = None, name: Optional[str] = None, priority: int = 0,
             process_set: ProcessSet = global_process_set) -> Any:
    """Sends the next splits[r] rows to each rank r of the set. Returns the rows received; with splits the pair (output,
    received_splits)."""
    counts = splits.asnumpy().astype("int64") if hasattr(splits, "asnumpy") else splits
    result = arrays.alltoall(to_read(tensor), counts, name, process_set)
    if splits is None:
        return like(result, tensor)
    received = like(result[1], tensor).astype("int32")
    return like(result[0], tensor), received


def reducescatter(tensor: Any, op: int = Average, name: Optional[str] = None, priority: int = 0,
                  process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> Any:
    """Reduces arrays of one shape and dtype, and gives each rank a part of the rows of the result."""
    handle = arrays.reducescatter_async(to_read(tensor), name, op, process_set, prescale_factor, postscale_factor)
    return like(handle.wait(), tensor)


def grouped_reducescatter(tensors: Sequence[Any], op: int = Average, name: Optional[str] = None, priority: int = 0,
                          process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> List[Any]:
    """reducescatter() of several arrays as one group."""
    given = listed(tensors)
    memory = [to_read(tensor) for tensor in given]
    results = arrays.grouped_reducescatter_async(memory, name, op, process_set, prescale_factor, postscale_factor).wait()
    return [like(result, tensor) for result, tensor in zip(results, given)]
