"""Collectives in place: they write their result into the tensor that they get.

Functions with _async in their name return a handle for `synchronize()`. Loans and errors are those of
rueda.torch.asynchronous.

Autograd: the enqueue advances the tensor's version counter, as PyTorch's own functions in place do. A backward pass
that saved the tensor before then raises RuntimeError. Gradients flow through the tensor as if the operation had not
happened, as in torch.distributed: scripts reduce a loss for their log before they call its backward(). The functions
that return a new tensor are differentiable. A distributed optimizer does not advance the counters of its gradients.
"""

from typing import List, Optional, Sequence

import torch

from rueda import operations
from rueda.handles import Handle
from rueda.operations import ALLREDUCE, BROADCAST, make_options
from rueda.process_sets import ProcessSet, global_process_set, id_of
from rueda.session import current
from rueda.torch.asynchronous import reduction, start_group, start_in_place
from rueda.torch.tensors import count_change, listed


def allreduce_async_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                     op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> Handle:
    """allreduce_async() into the tensor itself, which is the result."""
    options = reduction(ALLREDUCE, operations.reduce_op(average, op), process_set, prescale_factor, postscale_factor)
    handle = start_in_place(current(), operations.encode_name(name), options, tensor)
    count_change(tensor)
    return handle


def allreduce_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
               prescale_factor: float = 1.0, postscale_factor: float = 1.0,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """allreduce_async_() and its result."""
    return allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set).wait()


def grouped_allreduce_async_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                             op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                             process_set: ProcessSet = global_process_set) -> Handle:
    """grouped_allreduce_async() into the tensors themselves. Their list is the result."""
    options = reduction(ALLREDUCE, operations.reduce_op(average, op), process_set, prescale_factor, postscale_factor)
    changed = listed(tensors)
    handle = start_group(name, options, changed, True)
    for tensor in changed:
        count_change(tensor)
    return handle


def grouped_allreduce_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                       op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """grouped_allreduce_async_() and its result."""
    return grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set).wait()


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Handle:
    """broadcast_async() into the tensor itself, which is the result."""
    options = make_options(BROADCAST, id_of(process_set), rank=operations.root_of(root_rank))
    handle = start_in_place(current(), operations.encode_name(name), options, tensor)
    count_change(tensor)
    return handle


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """broadcast_async_() and its result."""
    return broadcast_async_(tensor, root_rank, name, process_set).wait()
