"""Collectives of rows that block until they have their result, a new tensor through which gradients flow.

They raise what the asynchronous functions and synchronize() raise. In a backward pass all ranks run the gradients'
operations, too.
"""

from typing import Any, List, Optional, Sequence

import torch

from rueda import operations
from rueda._native import lib
from rueda.compression import codec_of
from rueda.operations import ALLGATHER, REDUCESCATTER, Average, make_options, Sum
from rueda.outputs import received_splits
from rueda.process_sets import ProcessSet, global_process_set, id_of, ranks_of
from rueda.torch import rows
from rueda.torch.compression import Compression
from rueda.torch.differentiable import averaged_gradient, reduced_as_group
from rueda.torch.tensors import listed


def _of_gradient(name: Optional[str]) -> Optional[str]:
    return None if name is None else name + ".gradient"


class _Allgather(torch.autograd.Function):
    """The gradient is averaged over the ranks, and each rank takes its rows of the average."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet) -> torch.Tensor:
        def finish(handle: Any) -> torch.Tensor:
            counts = received_splits(handle.number, process_set.size())
            ctx.first, ctx.count = sum(counts[: process_set.rank()]), counts[process_set.rank()]
            return rows.take(handle, [tensor])[0]

        ctx.name, ctx.process_set, ctx.shape = name, process_set, tensor.shape
        return rows.start_rows(name, make_options(ALLGATHER, id_of(process_set)), tensor, finish).wait()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        average = averaged_gradient(gradient, _of_gradient(ctx.name), ctx.process_set)
        return average[ctx.first : ctx.first + ctx.count].reshape(ctx.shape), None, None


def allgather(tensor: torch.Tensor, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Concatenates the rows of all ranks, in the order of ranks. Dimension 0 may differ between ranks; the other
    dimensions and the dtype must be equal. Blocks; returns a new tensor. The gradient is averaged over the ranks, and
    each takes its rows."""
    return _Allgather.apply(tensor, name, process_set)


class _GroupedAllgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: Optional[str], process_set: ProcessSet, *tensors: torch.Tensor) -> Any:
        size, rank = len(ranks_of(process_set)), process_set.rank()
        handle = rows.grouped_allgather_async(tensors, name, process_set)

        def finish(done: Any) -> Any:
            counts = received_splits(done.number, size * len(tensors))
            ctx.slices = [(sum(counts[i * size : i * size + rank]), counts[i * size + rank]) for i in range(len(tensors))]
            return rows.take(done, tensors)

        handle.then(finish)
        ctx.name, ctx.process_set, ctx.shapes = name, process_set, [tensor.shape for tensor in tensors]
        return tuple(handle.wait())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        own = []
        for number, (gradient, (first, count), shape) in enumerate(zip(gradients, ctx.slices, ctx.shapes)):
            name = None if ctx.name is None else f"{ctx.name}.gradient.{number}"
            average = averaged_gradient(gradient, name, ctx.process_set)
            own.append(average[first : first + count].reshape(shape))
        return (None, None, *own)


def grouped_allgather(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                      process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """allgather() of several tensors as one group, which is enqueued whole or not at all. Returns a list of tensors."""
    return list(_GroupedAllgather.apply(name, process_set, *listed(tensors)))


class _Alltoall(torch.autograd.Function):
    """The gradient of a row returns to the rank that sent the row: an all-to-all with the received splits."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Any, name: Optional[str], process_set: ProcessSet) -> Any:
        counts = splits
        if splits is None:
            ranks = len(ranks_of(process_set))
            if tensor.dim() == 0 or tensor.shape[0] % ranks != 0:
                raise ValueError(f"shape {list(tensor.shape)}: dimension 0 must be a multiple of the {ranks} ranks; else give splits")
            counts = [tensor.shape[0] // ranks] * ranks
        output, received = rows.alltoall_async(tensor, counts, name, process_set).wait()
        ctx.how = received.tolist(), name, process_set
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> Any:
        received, name, process_set = ctx.how
        return _Alltoall.apply(gradient, received, _of_gradient(name), process_set)[0], None, None, None


def alltoall(tensor: torch.Tensor, splits: Any = None, name: Optional[str] = None,
             process_set: ProcessSet = global_process_set) -> Any:
    """Sends the next splits[r] rows to each rank r of the set, and returns the rows received, in the order of ranks.
    Blocks.

    splits: a tensor or list with an integer for each rank, which add up to the rows of the tensor; returns (output,
    received_splits) then. With None every rank gets the same number of rows, and the output alone is returned.
    """
    output, received = _Alltoall.apply(tensor, splits, name, process_set)
    return output if splits is None else (output, received)


def _gradient_factor(op: int, factor: float, process_set: ProcessSet) -> float:
    """The factor for the gathered gradient of a reduce-scatter: as if the loss were the average over the ranks and not
    their sum, times the set's size. factor: the product of its prescale and postscale factors."""
    if op not in (Average, Sum):
        raise ValueError("a reduce-scatter has a gradient only with op=Average or op=Sum")
    return factor * process_set.size() if op == Sum else factor


class _Reducescatter(torch.autograd.Function):
    """The gradient is gathered and multiplied by the same factors, and by the size of the set if op is Sum."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], op: int, codec: int, prescale: float, postscale: float,
                process_set: ProcessSet) -> torch.Tensor:
        ctx.how = name, op, prescale * postscale, process_set
        options = make_options(REDUCESCATTER, id_of(process_set), op, 0, codec, prescale, postscale)
        return rows.start_rows(name, options, tensor, lambda handle: rows.take(handle, [tensor])[0]).wait()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        name, op, factor, process_set = ctx.how
        factor = _gradient_factor(op, factor, process_set)
        return (allgather(gradient.contiguous(), _of_gradient(name), process_set) * factor, *[None] * 6)


def reducescatter(tensor: torch.Tensor, name: Optional[str] = None, compression: Any = Compression.none, op: int = Average,
                  process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> torch.Tensor:
    """Reduces tensors of one shape and dtype, and returns this rank's part of the rows of the result. Blocks.

    Each rank gets the same number of rows; if they cannot be divided evenly, the first ranks get one more. compression:
    as for allreduce(). The gradient, which Average and Sum have, is gathered, and multiplied by the set's size for Sum.
    """
    op = operations.reduce_op(None, op)
    codec = codec_of(compression)
    if codec is not None:
        return _Reducescatter.apply(tensor, name, op, codec, prescale_factor, postscale_factor, process_set)
    small, context = compression.compress(tensor)
    reduced = _Reducescatter.apply(small, name, op, lib.RUEDA_CODEC_NONE, prescale_factor, postscale_factor, process_set)
    return compression.decompress(reduced, context)


class _GroupedReducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, how: Any, *tensors: torch.Tensor) -> Any:
        ctx.how, ctx.shapes = how, [tensor.shape for tensor in tensors]
        name, op, codec, prescale, postscale, process_set = how
        options = make_options(REDUCESCATTER, id_of(process_set), op, 0, codec, prescale, postscale)
        return tuple(rows.start_rows_group(name, options, tensors).wait())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        name, op, _, prescale, postscale, process_set = ctx.how
        factor = _gradient_factor(op, prescale * postscale, process_set)
        gathered = grouped_allgather(gradients, _of_gradient(name), process_set)
        return (None, *(each.reshape(shape) * factor for each, shape in zip(gathered, ctx.shapes)))


def grouped_reducescatter(tensors: Sequence[torch.Tensor], name: Optional[str] = None, compression: Any = Compression.none,
                          op: int = Average, process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> List[torch.Tensor]:
    """reducescatter() of several tensors as one group, which is enqueued whole or not at all. Returns a list of
    tensors."""
    return reduced_as_group(_GroupedReducescatter, tensors, compression, name, operations.reduce_op(None, op), prescale_factor,
                            postscale_factor, process_set)  # fmt: skip
