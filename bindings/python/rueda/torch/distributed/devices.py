"""Tensors of torch.distributed that do not lie on the host: operations work on copies there."""

from typing import Any, List, Sequence, Tuple

import torch

from rueda import session
from rueda.handles import Handle


def require_numbers(what: str, tensor: torch.Tensor) -> None:
    """ValueError: the tensor has none, whatever device it is on."""
    if tensor.is_meta:
        raise ValueError(f"rank {session.current().rank}: {what} of a tensor of shape {list(tensor.shape)} on {tensor.device}, where "
                         "it has no numbers: make it on a device that holds some, as by torch.empty_like(tensor, device='cpu')")  # fmt: skip


class Places:
    """Where on the host the tensors of one operation lie: they themselves, or copies of those on other devices. What their
    device was to do with one by then is done before its copy is made, and the copy back is done when it returns."""

    def __init__(self, what: str):
        """what: the operation, as errors say it."""
        self._what = what
        self._copies: List[Tuple[torch.Tensor, torch.Tensor]] = []

    def to_read(self, tensor: torch.Tensor) -> torch.Tensor:
        """The place of one that the operation reads."""
        require_numbers(self._what, tensor)
        return tensor.detach().cpu()  # where it lies on the host, it itself

    def to_change(self, tensor: torch.Tensor) -> torch.Tensor:
        """The place of one that the operation reads and writes."""
        place = self.to_read(tensor)
        if not tensor.is_cpu:
            self._copies.append((tensor, place))
        return place

    def to_fill(self, tensor: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        """The place of one that the operation writes, after what it reads from `source`."""
        if tensor.is_cpu or tensor.device != source.device or tensor.is_meta:
            return self.to_change(tensor)
        place = torch.empty_like(tensor, device="cpu")  # the copy of `source` has waited for the device
        self._copies.append((tensor, place))
        return place

    def filled_by(self, handle: Handle) -> Handle:
        """The handle of the operation, whose waits copy back."""
        if self._copies:
            handle.also(self._copy_back)
        return handle

    def _copy_back(self, handle: Handle, result: Any) -> None:
        for tensor, place in self._copies:
            tensor.detach().copy_(place)


def used_by(results: Sequence[Any]) -> List[torch.device]:
    """The devices other than the host of tensors in a list, which may hold lists."""
    found = set()
    for result in results:
        if isinstance(result, (list, tuple)):
            found.update(used_by(result))
        elif not result.is_cpu:
            found.add(result.device)
    return sorted(found, key=str)
