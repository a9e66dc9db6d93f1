"""Collectives that change the tensors they are given, and what autograd is told of that.

The functions with _async return a handle for `synchronize()`; what rueda.torch.asynchronous says about loans and errors holds
here too.

A tensor's version counter grows when the operation is enqueued, as in PyTorch's own functions: a backward pass that needs what
the tensor held before raises RuntimeError. From then on until synchronize() the tensor is lent, so that nobody can have saved
it meanwhile. The gradients that a distributed optimizer reduces are not counted. What a tensor is to autograd says the rest:

    in the middle of a graph   gradients flow as through the function that returns a new tensor
    a leaf, or a view of one   takes the new numbers as under torch.no_grad(): scripts broadcast parameters as they are
"""

from typing import Any, Callable, List, Optional, Sequence

import torch

from rueda import operations
from rueda.handles import Handle
from rueda.operations import ALLREDUCE, BROADCAST, CODEC_NONE
from rueda.process_sets import ProcessSet, global_process_set, id_of
from rueda.session import current
from rueda.torch import tensors
from rueda.torch.asynchronous import start_group, start_in_place
from rueda.torch.differentiable import allreduce_gradient, broadcast_gradient


class _Overwritten(torch.autograd.Function):
    """Stands in the graph for an operation that has been enqueued."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, of_gradient: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        ctx.of_gradient = of_gradient
        ctx.mark_dirty(tensor)
        return tensor

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return ctx.of_gradient(gradient), None


def _tell(tensor: torch.Tensor, of_gradient: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Tells autograd that the tensor is being overwritten. of_gradient: its gradient by that of the result."""
    if tensors.in_graph(tensor):
        _Overwritten.apply(tensor, of_gradient)
    else:
        tensors.count_change(tensor)


def allreduce_async_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                     op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> Handle:
    """allreduce_async() in place."""
    op = operations.reduce_op(average, op)
    handle = start_in_place(current(), ALLREDUCE, tensor, op, operations.encode_name(name), id_of(process_set), CODEC_NONE,
                            prescale_factor, postscale_factor)  # fmt: skip
    how = name, op, CODEC_NONE, prescale_factor, postscale_factor, process_set
    _tell(tensor, lambda gradient: allreduce_gradient(gradient, *how))
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
    op, tensors = operations.reduce_op(average, op), list(tensors)
    handle = start_group(ALLREDUCE, tensors, True, op, name, process_set, CODEC_NONE, prescale_factor, postscale_factor)
    how = op, CODEC_NONE, prescale_factor, postscale_factor, process_set
    for number, tensor in enumerate(tensors):
        of_it = None if name is None else f"{name}.{number}"
        _tell(tensor, lambda gradient, of_it=of_it: allreduce_gradient(gradient, of_it, *how))
    return handle


def grouped_allreduce_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                       op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """grouped_allreduce_async_() and synchronize() in one."""
    return grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set).wait()


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Handle:
    """broadcast_async() into the tensor itself."""
    handle = start_in_place(current(), BROADCAST, tensor, root_rank, operations.encode_name(name), id_of(process_set))
    _tell(tensor, lambda gradient: broadcast_gradient(gradient, root_rank, name, process_set))
    return handle


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """broadcast_async_() and synchronize() in one."""
    return broadcast_async_(tensor, root_rank, name, process_set).wait()
