"""What callers give to the methods of a process group, and what they mean: each takes several forms."""

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
    """A tensor that is only read as one row of elements."""
    tensors.require_strided(tensor)
    return tensors.resolved(tensor.detach()).contiguous().view(-1)


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor as one row of elements; ValueError: it is not contiguous."""
    tensors.in_place(tensor)
    if not tensor.is_contiguous():
        raise ValueError(f"shape {list(tensor.shape)} with strides {list(tensor.stride())} is not contiguous")
    return tensor.detach().view(-1)


def overlap(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two contiguous tensors share memory."""
    begin, other = first.data_ptr(), second.data_ptr()
    return begin < other + second.numel() * second.element_size() and other < begin + first.numel() * first.element_size()


def joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The elements of all as one row, a copy."""
    return torch.cat([part.detach().reshape(-1) for part in parts])


def copy_parts(parts: Sequence[torch.Tensor], flat: torch.Tensor) -> None:
    for part, piece in zip(parts, flat.split([part.numel() for part in parts])):
        part.detach().copy_(piece.view(part.shape))


def operator(options: Any) -> int:
    """options: PyTorch's, an operator, or nothing for a sum."""
    wanted = getattr(options, "reduceOp", ReduceOp.SUM if options is None else options)
    for known, number in _OPS.items():
        if wanted == known:
            return number
    name = next((name for name, other in ReduceOp.RedOpType.__members__.items() if wanted == other), wanted)
    raise ValueError(f"reduce operator {name} is not supported; {', '.join(known.name for known in _OPS)} are")


def root_of(options: Any) -> int:
    """options: PyTorch's, a rank of the group, or nothing for its first one."""
    return options if isinstance(options, int) else getattr(options, "rootRank", 0)


def given(value: Any, other: Any) -> Any:
    return other if value is None else value


def as_list(value: Any) -> List[Any]:
    return [value] if isinstance(value, torch.Tensor) else list(value)


def lists(value: Any) -> List[Any]:
    """One list of tensors, also where it is the only one of a list."""
    return list(value) if not value or isinstance(value[0], torch.Tensor) else list(value[0])


def matrix(tensor: torch.Tensor, flat: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """What `flat` makes of a tensor as rows: its own along dimension 0."""
    return flat(tensor).view(tensor.shape[0], math.prod(tensor.shape[1:])) if tensor.dim() > 1 else flat(tensor)


def seconds_of(*given: Any, otherwise: float) -> float:
    """The limit of an operation in seconds, 0 for RUEDA_TIMEOUT_SECONDS. given: PyTorch's options, times, or nothing; those that set no time, as -1 ms
    and 0, count for nothing."""
    for each in given:
        time = getattr(each, "timeout", each)
        if isinstance(time, timedelta) and time > timedelta(0):
            return allowed(time)
    return otherwise


def allowed(time: timedelta) -> float:
    """Seconds, or 0 where the user has set RUEDA_TIMEOUT_SECONDS to less, which limits every operation."""
    user = float(os.environ.get("RUEDA_TIMEOUT_SECONDS") or 0.0)
    seconds = time.total_seconds()
    return 0.0 if 0.0 < user < seconds else seconds
