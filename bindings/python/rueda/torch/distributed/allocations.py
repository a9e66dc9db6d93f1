"""Buffers that a process group gives to others, in memory that the ranks of this host use where it lies.

FullyShardedDataParallel of torch.distributed.fsdp takes its staging buffers from here after
model.set_allocate_memory_from_process_group_for_comm(True).
"""

from typing import Optional

import torch

from rueda import session
from rueda.errors import CollectiveError
from rueda.tensor_memory import Pool

_pool = Pool()


def serves(device: torch.device) -> bool:
    """Returns whether this host has other ranks, and they can use tensors of this device where they lie."""
    here = session.current_or_none()
    return torch.device(device).type == "cpu" and here is not None and here.local_size > 1


def shared(count: int, dtype: torch.dtype) -> Optional[torch.Tensor]:
    """Returns a tensor of `count` elements, at least one, with any content; None beyond the budget."""
    try:
        return torch.frombuffer(_pool.allocate(count * torch.empty(0, dtype=dtype).element_size()), dtype=dtype, count=count)
    except CollectiveError:  # RUEDA_SHARED_TENSOR_BYTES is spent, or the session has ended
        return None


def allocate(count: int, dtype: torch.dtype) -> torch.Tensor:
    """As shared(). Beyond the budget the tensor lies in private memory."""
    made = shared(count, dtype) if count > 0 else None
    return torch.empty(count, dtype=dtype) if made is None else made


def clone(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a contiguous tensor, where other ranks can read it if that is possible."""
    if not serves(tensor.device):
        return tensor.clone()
    return allocate(tensor.numel(), tensor.dtype).view(tensor.shape).copy_(tensor)
