"""What stands for tensors in pickles of nested state."""

from typing import Any, Optional, Tuple

import torch

from rueda import object_bytes
from rueda.torch.tensors import memory_extents


class TensorSlot:
    """Stands for a tensor in a skeleton of nested state."""

    def __init__(self, shape: Tuple[int, ...], dtype: torch.dtype, on_host: bool, strides: Optional[Tuple[int, ...]]):
        self.shape = shape
        self.dtype = dtype
        self.on_host = on_host
        self.strides = strides

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "TensorSlot":
        """The slot of this tensor."""
        ordered = tensor.layout == torch.strided and not tensor.is_contiguous() and memory_extents(tensor) is not None
        return cls(tuple(tensor.shape), tensor.dtype, tensor.is_cpu, tuple(tensor.stride()) if ordered else None)

    def __reduce__(self) -> Tuple[Any, ...]:
        """Pickles the arguments and not the attributes: a pickle of data that sets attributes is refused."""
        return TensorSlot, (self.shape, self.dtype, self.on_host, self.strides)

    def tensor(self, mine: Any, device: torch.device) -> torch.Tensor:
        """Returns `mine` if it fits, in whatever order its dimensions lie in memory; else a new tensor, in the root's order: on the
        host if the root's is there, else on `device`."""
        wanted = torch.device("cpu") if self.on_host else device
        if isinstance(mine, torch.Tensor) and (tuple(mine.shape), mine.dtype, mine.device) == (self.shape, self.dtype, wanted):
            return mine
        if self.strides is None:
            return torch.zeros(self.shape, dtype=self.dtype, device=wanted)
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=wanted).zero_()


def _find(module: str, name: str) -> Any:
    """The slots, and PyTorch's dtypes: both are data."""
    if (module, name) == (TensorSlot.__module__, TensorSlot.__qualname__):
        return TensorSlot
    dtype = getattr(torch, name, None) if module == "torch" else None
    return dtype if isinstance(dtype, torch.dtype) else None


object_bytes.finders.append(_find)
