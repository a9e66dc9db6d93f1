"""What stands for tensors in pickles of nested state."""

from typing import Any, Tuple

import torch

from rueda import object_bytes


class TensorSlot:
    """Stands for a tensor in a skeleton of nested state."""

    def __init__(self, shape: Tuple[int, ...], dtype: torch.dtype, on_host: bool):
        self.shape = shape
        self.dtype = dtype
        self.on_host = on_host

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "TensorSlot":
        """The slot of this tensor."""
        return cls(tuple(tensor.shape), tensor.dtype, tensor.is_cpu)

    def __reduce__(self) -> Tuple[Any, ...]:
        """Pickles the arguments and not the attributes: a pickle of data that sets attributes is refused."""
        return TensorSlot, (self.shape, self.dtype, self.on_host)

    def tensor(self, mine: Any, device: torch.device) -> torch.Tensor:
        """Returns `mine` if it fits, else a new tensor: on the host if the root's is there, else on `device`."""
        wanted = torch.device("cpu") if self.on_host else device
        if isinstance(mine, torch.Tensor) and (tuple(mine.shape), mine.dtype, mine.device) == (self.shape, self.dtype, wanted):
            return mine
        return torch.zeros(self.shape, dtype=self.dtype, device=wanted)


def _find(module: str, name: str) -> Any:
    """The slots, and PyTorch's dtypes: both are data."""
    if (module, name) == (TensorSlot.__module__, TensorSlot.__qualname__):
        return TensorSlot
    dtype = getattr(torch, name, None) if module == "torch" else None
    return dtype if isinstance(dtype, torch.dtype) else None


object_bytes.finders.append(_find)
