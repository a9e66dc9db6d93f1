"""The arguments of a process group's methods. PyTorch passes each of them in several forms, which depend on its
version."""

import math
import os
from datetime import timedelta
from typing import Any, Callable, List, Sequence

import torch
from torch._C._distributed_c10d import ReduceOp

from rueda import operations
from rueda.torch import tensors

_OPS = {
    ReduceOp.SUM: operations.Sum, ReduceOp.AVG: operations.Average, ReduceOp.PRODUCT: operations.Product,
    ReduceOp.MIN: operations.Min, ReduceOp.MAX: operations.Max, ReduceOp.BAND: operations.BitAnd,
    ReduceOp.BOR: operations.BitOr, ReduceOp.BXOR: operations.BitXor,
}  # fmt: skip


def read(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of a tensor that is only read, as a tensor of one dimension. Copies if the tensor is not contiguous.
    """
    tensors.require_strided(tensor)
    return tensors.resolved(tensor.detach()).contiguous().view(-1)


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """A view of a contiguous tensor with one dimension. Raises ValueError if the tensor is not contiguous."""
    tensors.in_place(tensor)
    if not tensor.is_contiguous():
        raise ValueError(f"shape {list(tensor.shape)} with strides {list(tensor.stride())} is not contiguous; pass tensor.contiguous()")
    return tensor.detach().view(-1)


def overlap(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Returns whether two contiguous tensors share memory."""
    begin, other = first.data_ptr(), second.data_ptr()
    return begin < other + second.numel() * second.element_size() and other < begin + first.numel() * first.element_size()


def joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """A copy of the elements of all tensors, as a tensor of one dimension."""
    return torch.cat([part.detach().reshape(-1) for part in parts])


def copy_parts(parts: Sequence[torch.Tensor], flat: torch.Tensor) -> None:
    """Splits a tensor of one dimension into the tensors `parts`, by their numbers of elements."""
    for part, piece in zip(parts, flat.split([part.numel() for part in parts])):
        part.detach().copy_(piece.view(part.shape))


def operator(options: Any) -> int:
    """The library's number of a reduce operator. options: PyTorch's options, an operator, or None for a sum.

    Raises ValueError if the library does not have the operator.
    """
    wanted = getattr(options, "reduceOp", ReduceOp.SUM if options is None else options)
    for known, number in _OPS.items():
        if wanted == known:
            return number
    name = next((name for name, other in ReduceOp.RedOpType.__members__.items() if wanted == other), wanted)
    raise ValueError(f"reduce operator {name} is not supported; use one of {', '.join(known.name for known in _OPS)}")


def root_of(options: Any) -> int:
    """The root as a rank of the group. options: PyTorch's options, a rank of the group, or None for rank 0."""
    return options if isinstance(options, int) else getattr(options, "rootRank", 0)


def given(value: Any, other: Any) -> Any:
    """The value that is not None, of an argument with two names."""
    return other if value is None else value


def as_list(value: Any) -> List[Any]:
    """A list of tensors, from one or from a tensor."""
    return [value] if isinstance(value, torch.Tensor) else list(value)


def lists(value: Any) -> List[Any]:
    """A list of tensors, from one or from a list that holds one such list."""
    return list(value) if not value or isinstance(value[0], torch.Tensor) else list(value[0])


def matrix(tensor: torch.Tensor, flat: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """A tensor as rows along dimension 0, of one dimension each. flat: read() or flat() of this module."""
    return flat(tensor).view(tensor.shape[0], math.prod(tensor.shape[1:])) if tensor.dim() > 1 else flat(tensor)


def seconds_of(*given: Any, otherwise: float) -> float:
    """The limit of an operation in seconds, 0 for RUEDA_TIMEOUT_SECONDS. given: PyTorch's options, times or None; the
    first positive time in them counts. Options without a timeout hold 0 or -1 ms."""
    for each in given:
        time = getattr(each, "timeout", each)
        if isinstance(time, timedelta) and time > timedelta(0):
            return allowed(time)
    return otherwise


def allowed(time: timedelta) -> float:
    """The time in seconds, or 0 if RUEDA_TIMEOUT_SECONDS is smaller: the library then applies that one."""
    user = float(os.environ.get("RUEDA_TIMEOUT_SECONDS") or 0.0)
    seconds = time.total_seconds()
    return 0.0 if 0.0 < user < seconds else seconds
