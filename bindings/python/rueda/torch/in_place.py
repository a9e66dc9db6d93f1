"""Collectives that change the tensors they are given, and what autograd is told of that.

The functions with _async return a handle for `synchronize()`; what rueda.torch.asynchronous says about loans and errors holds
here too.

A tensor's version counter grows when the operation is enqueued, as in PyTorch's own functions: a backward pass that needs what
the tensor held before raises RuntimeError. From then on until synchronize() the tensor is lent, so that nobody can have saved
it meanwhile. The gradients that a distributed optimizer reduces are not counted. Gradients flow through a tensor as if nothing
had been done to it, as in torch.distributed: scripts add up a loss for their log before they call its backward(). The functions
that return a new tensor are the differentiable ones.
"""

from typing import List, Optional, Sequence

import torch

from rueda import operations
from rueda.handles import Handle
from rueda.operations import ALLREDUCE, BROADCAST, Options
from rueda.process_sets import ProcessSet, global_process_set, id_of
from rueda.session import current
from rueda.torch.asynchronous import reduction, start_group, start_in_place
from rueda.torch.tensors import count_change, listed


def allreduce_async_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                     op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> Handle:
    """allreduce_async() in place."""
    options = reduction(ALLREDUCE, operations.reduce_op(average, op), process_set, prescale_factor, postscale_factor)
    handle = start_in_place(current(), operations.encode_name(name), options, tensor)
    count_change(tensor)
    return handle


def allreduce_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
               prescale_factor: float = 1.0, postscale_factor: float = 1.0,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """allreduce_async_() and synchronize() in one."""
    return allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set).wait()


def grouped_allreduce_async_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                             op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                             process_set: ProcessSet = global_process_set) -> Handle:
    """grouped_allreduce_async() in place."""
    options = reduction(ALLREDUCE, operations.reduce_op(average, op), process_set, prescale_factor, postscale_factor)
    changed = listed(tensors)
    handle = start_group(name, options, changed, True)
    for tensor in changed:
        count_change(tensor)
    return handle


def grouped_allreduce_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                       op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """grouped_allreduce_async_() and synchronize() in one."""
    return grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set).wait()


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Handle:
    """broadcast_async() into the tensor itself."""
    options = Options(BROADCAST, id_of(process_set), rank=operations.root_of(root_rank))
    handle = start_in_place(current(), operations.encode_name(name), options, tensor)
    count_change(tensor)
    return handle


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """broadcast_async_() and synchronize() in one."""
    return broadcast_async_(tensor, root_rank, name, process_set).wait()
