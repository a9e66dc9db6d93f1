"""Collectives that block until they have their result, a new tensor through which gradients flow.

They raise what the asynchronous functions and synchronize() raise. In a backward pass all ranks run the gradients'
operations, too.
"""

from typing import Any, List, Optional, Sequence

import torch

from rueda import operations
from rueda._native import lib
from rueda.compression import codec_of
from rueda.operations import ALLREDUCE, BROADCAST, Average, make_options, Sum
from rueda.process_sets import ProcessSet, global_process_set, id_of
from rueda.session import current
from rueda.torch import tensors
from rueda.torch.asynchronous import start_group, start_new
from rueda.torch.compression import Compression
from rueda.torch.tensors import listed


def _wants_gradient(tensor: torch.Tensor) -> bool:
    tensors.require_strided(tensor)
    return tensor.requires_grad and torch.is_grad_enabled()


def _of_gradient(name: Optional[str]) -> Optional[str]:
    return None if name is None else name + ".gradient"


def _allreduce(tensor: torch.Tensor, name: Optional[str], op: int, codec: int, prescale: float, postscale: float,
               process_set: ProcessSet) -> torch.Tensor:
    return start_new(current(), name, make_options(ALLREDUCE, id_of(process_set), op, 0, codec, prescale, postscale), tensor).wait()


def _require_linear(op: int) -> None:
    if op not in (Average, Sum):
        raise ValueError("an all-reduce has a gradient only with op=Average or op=Sum")


class _Allreduce(torch.autograd.Function):
    """Every rank's loss depends on every rank's input, so the gradient is all-reduced with the same operator and
    factors."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, *how: Any) -> torch.Tensor:
        ctx.how = how
        return _allreduce(tensor, *how)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return (allreduce_gradient(gradient, *ctx.how), *(None for _ in ctx.how))


def allreduce_gradient(gradient: torch.Tensor, name: Optional[str], op: int, *rest: Any) -> torch.Tensor:
    """The gradient of an all-reduce with these arguments. Raises ValueError if the operator has none."""
    _require_linear(op)
    return allreduce_with(gradient, _of_gradient(name), op, *rest)


def allreduce_with(tensor: torch.Tensor, *how: Any) -> torch.Tensor:
    """allreduce() with the library's arguments: name, op, codec, prescale, postscale, process set."""
    return _Allreduce.apply(tensor, *how) if _wants_gradient(tensor) else _allreduce(tensor, *how)


def allreduce(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
              compression: Any = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Reduces tensors of one shape and dtype element by element over the ranks of the set. Blocks; returns a new
    tensor.

    op, average, prescale_factor, postscale_factor: as for allreduce_async(). compression: Compression.none, fp16 or
    bf16, or a class with compress() and decompress(). The gradient, which Average and Sum have, is all-reduced in the
    same way.
    """
    op = operations.reduce_op(average, op)
    codec = codec_of(compression)
    if codec is not None:
        return allreduce_with(tensor, name, op, codec, prescale_factor, postscale_factor, process_set)
    compressed, context = compression.compress(tensor)
    reduced = allreduce_with(compressed, name, op, lib.RUEDA_CODEC_NONE, prescale_factor, postscale_factor, process_set)
    return compression.decompress(reduced, context)


class _GroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, how: Any, *tensors: torch.Tensor) -> Any:
        ctx.how = how
        name, op, codec, prescale, postscale, process_set = how
        options = make_options(ALLREDUCE, id_of(process_set), op, 0, codec, prescale, postscale)
        return tuple(start_group(name, options, tensors, False).wait())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        name, op, *rest = ctx.how
        _require_linear(op)
        return (None, *_GroupedAllreduce.apply((_of_gradient(name), op, *rest), *gradients))


def grouped_allreduce(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                      compression: Any = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """allreduce() of several tensors as one group, which is enqueued whole or not at all. Returns a list of tensors."""
    return reduced_as_group(_GroupedAllreduce, tensors, compression, name, operations.reduce_op(average, op), prescale_factor,
                            postscale_factor, process_set)  # fmt: skip


def reduced_as_group(function: Any, tensors: Sequence[torch.Tensor], compression: Any, name: Optional[str], op: int,
                     prescale: float, postscale: float, process_set: ProcessSet) -> List[torch.Tensor]:
    """The results of an autograd function that reduces a group. The library applies a codec; a user's class is applied
    here."""
    tensors = listed(tensors)
    codec = codec_of(compression)
    if codec is not None:
        return list(function.apply((name, op, codec, prescale, postscale, process_set), *tensors))
    pairs = [compression.compress(tensor) for tensor in tensors]
    how = (name, op, lib.RUEDA_CODEC_NONE, prescale, postscale, process_set)
    reduced = function.apply(how, *(tensor for tensor, _ in pairs))
    return [compression.decompress(tensor, context) for tensor, (_, context) in zip(reduced, pairs)]


def averaged_gradient(gradient: torch.Tensor, name: Optional[str], process_set: ProcessSet) -> torch.Tensor:
    """The average of the ranks' gradients, through which gradients flow again."""
    return allreduce_with(gradient, name, Average, lib.RUEDA_CODEC_NONE, 1.0, 1.0, process_set)


class _Broadcast(torch.autograd.Function):
    """The root gets the average of the gradients, the others zeros."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int, name: Optional[str], process_set: ProcessSet) -> Any:
        ctx.how = root_rank, name, process_set
        return _broadcast(tensor, root_rank, name, process_set)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return broadcast_gradient(gradient, *ctx.how), None, None, None


def broadcast_gradient(gradient: torch.Tensor, root_rank: int, name: Optional[str], process_set: ProcessSet) -> torch.Tensor:
    """This rank's gradient of a broadcast."""
    reduced = averaged_gradient(gradient, _of_gradient(name), process_set)
    # The zeros depend on the average, so that a second backward pass runs its operation on all ranks.
    return reduced if current().rank == root_rank else reduced.masked_fill(reduced.new_ones((), dtype=torch.bool), 0)


def _broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str], process_set: ProcessSet) -> torch.Tensor:
    return start_new(current(), name, make_options(BROADCAST, id_of(process_set), rank=root_rank), tensor).wait()


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Copies the root's tensor to a new tensor on every rank of the set. Blocks. All give one shape and dtype.

    root_rank: a rank of the job, even within a process set. On the root the gradient is the average of all ranks'
    gradients; on the other ranks it is zero.
    """
    root_rank = operations.root_of(root_rank)
    if _wants_gradient(tensor):
        return _Broadcast.apply(tensor, root_rank, name, process_set)
    return _broadcast(tensor, root_rank, name, process_set)
