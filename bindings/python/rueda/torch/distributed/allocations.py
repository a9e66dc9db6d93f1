"""Buffers that a process group gives to others, in memory that the ranks of this host use where it lies.

FullyShardedDataParallel of torch.distributed.fsdp takes its staging buffers from here after
model.set_allocate_memory_from_process_group_for_comm(True).
"""

from typing import Optional

import torch

from rueda import session
from rueda.errors import CollectiveError
from rueda.tensor_memory import Pool, allocate_shared

_pool = Pool()


def serves(device: torch.device) -> bool:
    """Returns whether this host has other ranks, and they can use tensors of this device where they lie."""
    here = session.current_or_none()
    return torch.device(device).type == "cpu" and here is not None and here.local_size > 1


def lasting(count: int, dtype: torch.dtype) -> Optional[torch.Tensor]:
    """Returns a tensor of `count` elements, at least one, with any content, whose memory is given back at its end; None if
    there is no shared memory for it."""
    try:
        memory = allocate_shared(_bytes_of(count, dtype))
    except CollectiveError:  # RUEDA_SHARED_TENSOR_BYTES is spent
        return None
    return None if memory is None else torch.frombuffer(memory, dtype=dtype, count=count)


def allocate(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Returns a tensor of `count` elements with any content, of the pool. Beyond the budget it lies in private memory."""
    if count > 0:
        try:
            return torch.frombuffer(_pool.allocate(_bytes_of(count, dtype)), dtype=dtype, count=count)
        except CollectiveError:  # RUEDA_SHARED_TENSOR_BYTES is spent, or the session has ended
            pass
    return torch.empty(count, dtype=dtype)


def _bytes_of(count: int, dtype: torch.dtype) -> int:
    return count * torch.empty(0, dtype=dtype).element_size()


def clone(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a contiguous tensor, where other ranks can read it if that is possible."""
    if not serves(tensor.device):
        return tensor.clone()
    return allocate(tensor.numel(), tensor.dtype).view(tensor.shape).copy_(tensor)
