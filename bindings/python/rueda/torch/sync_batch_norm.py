"""Batch normalisation (Ioffe and Szegedy, ICML 2015) over the joined batch of all ranks."""

from typing import Any, List, Optional, Tuple

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from rueda import newcomers
from rueda._native import lib
from rueda.operations import Sum
from rueda.process_sets import ProcessSet, global_process_set
from rueda.torch.differentiable import allreduce_with


def _sum(tensor: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    return allreduce_with(tensor, None, Sum, lib.RUEDA_CODEC_NONE, 1.0, 1.0, process_set)


def _normalized(tensor: torch.Tensor, weight: Optional[torch.Tensor], bias: Optional[torch.Tensor], count: torch.Tensor,
                eps: float, process_set: ProcessSet) -> torch.Tensor:
    """The output of _Normalize, from operations that can be differentiated any number of times."""
    summed, column = _layout(tensor)
    wide = tensor.to(count.dtype)
    centred = wide - (_sum(wide.sum(summed), process_set) / count).view(column)
    variance = _sum((centred * centred).sum(summed), process_set) / count
    output = centred * torch.rsqrt(variance + eps).view(column)
    if weight is not None and bias is not None:
        output = output * weight.to(wide.dtype).view(column) + bias.to(wide.dtype).view(column)
    return output.to(tensor.dtype)


def _layout(tensor: torch.Tensor) -> Tuple[List[int], List[int]]:
    """The dimensions to sum over, and the shape in which a value per channel broadcasts against the tensor."""
    return [dimension for dimension in range(tensor.dim()) if dimension != 1], [1, -1] + [1] * (tensor.dim() - 2)


class _Normalize(torch.autograd.Function):
    """(input - mean) / sqrt(variance + eps) * weight + bias with the mean and variance of all ranks' inputs.

    The forward pass has two all-reduces: of the values, then of the squared distances from their mean. One pass over
    both would cancel digits. The backward pass has one, of the gradients and of their products with the normalised
    input. A backward pass that must be differentiable itself, as for a penalty on gradients, runs through
    _normalized().
    """

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, weight: Optional[torch.Tensor], bias: Optional[torch.Tensor], eps: float,
                process_set: ProcessSet) -> Tuple[torch.Tensor, ...]:
        summed, column = _layout(tensor)
        wide = tensor.to(torch.promote_types(tensor.dtype, torch.float32))
        own = wide.new_tensor([tensor.numel() / max(1, tensor.shape[1])])
        totals = _sum(torch.cat([wide.sum(summed), own]), process_set)
        count = totals[-1]
        if float(count) == 1.0:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(tensor.shape)} and no "
                             "more on other ranks")  # fmt: skip
        mean = totals[:-1] / count
        centred = wide - mean.view(column)
        variance = _sum((centred * centred).sum(summed), process_set) / count
        scale = torch.rsqrt(variance + eps)
        output = normalised = centred * scale.view(column)
        if weight is not None and bias is not None:
            output = normalised * weight.to(wide.dtype).view(column) + bias.to(wide.dtype).view(column)
        # Saves the input and not `normalised`: it is in memory anyway, and narrower.
        ctx.save_for_backward(tensor, weight, bias, mean, scale, count)
        ctx.summed, ctx.column, ctx.eps, ctx.process_set = summed, column, eps, process_set
        ctx.mark_non_differentiable(mean, variance, count)
        return output.to(tensor.dtype), mean, variance, count

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, *_: Any) -> Any:
        tensor, weight, bias, mean, scale, count = ctx.saved_tensors
        if torch.is_grad_enabled():  # the user set create_graph=True, on all ranks
            output = _normalized(tensor, weight, bias, count, ctx.eps, ctx.process_set)
            wanted = [each for each, needs in zip((tensor, weight, bias), ctx.needs_input_grad) if needs]
            found = iter(torch.autograd.grad(output, wanted, gradient, create_graph=True))
            return (*(next(found) if needs else None for needs in ctx.needs_input_grad[:3]), None, None)
        wide = gradient.to(mean.dtype)
        normalised = (tensor.to(mean.dtype) - mean.view(ctx.column)) * scale.view(ctx.column)
        bias_gradient = wide.sum(ctx.summed)
        weight_gradient = (wide * normalised).sum(ctx.summed)
        features = bias_gradient.numel()
        sums = _sum(torch.cat([bias_gradient, weight_gradient]), ctx.process_set) / count
        inner = wide - sums[:features].view(ctx.column) - normalised * sums[features:].view(ctx.column)
        factor = scale if weight is None else scale * weight.to(scale.dtype)
        input_gradient = (inner * factor.view(ctx.column)).to(gradient.dtype)
        if weight is None:
            return input_gradient, None, None, None, None
        return input_gradient, weight_gradient.to(weight.dtype), bias_gradient.to(weight.dtype), None, None


class SyncBatchNorm(_BatchNorm):
    """torch.nn.BatchNorm1d, 2d and 3d with the mean and variance of all ranks' inputs [N, num_features, ...]; N may
    differ.

    In evaluation, on one rank, and in the warm-up of a new worker of an elastic job, it is the ordinary layer. The
    gradients of weight and bias are this rank's part, which a distributed optimizer reduces. Parameters: those of torch.nn.BatchNorm2d, and the process set; all its ranks
    call forward().
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: Optional[float] = 0.1, affine: bool = True,
                 track_running_stats: bool = True, process_set: ProcessSet = global_process_set):
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        if not isinstance(process_set, ProcessSet):
            raise ValueError(f"process_set={process_set!r}: give a ProcessSet")
        self.process_set = process_set

    def _check_input_dim(self, input: torch.Tensor) -> None:
        """Checks the input before any communication. The sentences are those of PyTorch's own layers."""
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.shape[1] == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")
        if input.shape[1] != self.num_features:
            raise RuntimeError(f"input of shape {list(input.shape)}: running_mean should contain {input.shape[1]} elements not "
                               f"{self.num_features}")  # fmt: skip
        if not input.is_floating_point():
            raise ValueError(f"expected floating-point input, got {input.dtype}")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalises the input; blocks for the other ranks in training.

        Raises ValueError if the input has fewer than 2 dimensions, or all ranks together have one value per channel;
        RuntimeError if it has another number of channels; and what the collectives raise.
        """
        uses_batch = self.training or not self.track_running_stats
        if not uses_batch or self.process_set.size() in (None, 1):
            return super().forward(input)
        self._check_input_dim(input)
        if newcomers.warms_up():  # a single value has no variance; in the job other ranks add theirs
            return super().forward(input) if input.numel() > input.shape[1] else input
        output, mean, variance, count = _Normalize.apply(input, self.weight, self.bias, self.eps, self.process_set)
        if self.training and self.track_running_stats and float(count) > 0:
            self._track(mean, variance, count)
        return output

    @torch.no_grad()
    def _track(self, mean: torch.Tensor, variance: torch.Tensor, count: torch.Tensor) -> None:
        self.num_batches_tracked += 1
        share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        unbiased = variance * (count / (count - 1).clamp(min=1))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)
