"""Tensors on other devices than the host: their operations run on copies in the host's memory.

The library reads and writes the host's memory only. A copy costs what the device's own copy costs; it is made before
the operation is enqueued and written back when its handle is waited for.
"""

from typing import Any, List, Sequence, Tuple

import torch

from rueda import session
from rueda.handles import Handle


def require_numbers(what: str, tensor: torch.Tensor) -> None:
    """Raises ValueError if the tensor is on `meta`, which stores no numbers. what: the operation, for the sentence."""
    if tensor.is_meta:
        raise ValueError(f"rank {session.current().rank}: {what} of a tensor of shape {list(tensor.shape)} on {tensor.device}, which "
                         "stores no numbers; use a tensor with memory, such as torch.empty_like(tensor, device='cpu')")  # fmt: skip


class HostCopies:
    """The host's tensors for one operation: the caller's own if they are on the host, else copies of them.

    Each method returns the host's tensor. It first waits until the device has finished what it had to do with the
    caller's tensor. The copy back is complete when the wait for the handle returns. For the thread that enqueues the
    operation.
    """

    def __init__(self, what: str):
        """what: the operation, for error sentences."""
        self._what = what
        self._copies: List[Tuple[torch.Tensor, torch.Tensor]] = []  # the caller's tensor, and its copy

    def to_read(self, tensor: torch.Tensor) -> torch.Tensor:
        """For a tensor that the operation reads."""
        require_numbers(self._what, tensor)
        return tensor.detach().cpu()  # on the host already, cpu() returns the tensor itself

    def to_change(self, tensor: torch.Tensor) -> torch.Tensor:
        """For a tensor that the operation reads and writes."""
        copy = self.to_read(tensor)
        if not tensor.is_cpu:
            self._copies.append((tensor, copy))
        return copy

    def to_fill(self, tensor: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        """For a tensor that the operation only writes. source: the tensor that it reads, already passed to to_read().
        """
        if tensor.is_cpu or tensor.device != source.device or tensor.is_meta:
            return self.to_change(tensor)
        # Nothing to wait for: the copy of `source` has waited for this device.
        copy = torch.empty_like(tensor, device="cpu")
        self._copies.append((tensor, copy))
        return copy

    def filled_by(self, handle: Handle) -> Handle:
        """The operation's handle. A wait for it now also copies the results back to their devices."""
        if self._copies:
            handle.also(self._copy_back)
        return handle

    def _copy_back(self, handle: Handle, result: Any) -> None:
        for tensor, copy in self._copies:
            tensor.detach().copy_(copy)


def used_by(results: Sequence[Any]) -> List[torch.device]:
    """The devices other than the host of the tensors in a list, or in a list of lists."""
    found = set()
    for result in results:
        if isinstance(result, (list, tuple)):
            found.update(used_by(result))
        elif not result.is_cpu:
            found.add(result.device)
    return sorted(found, key=str)
