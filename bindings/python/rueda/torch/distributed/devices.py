"""Tensors on other devices than the host, in the operations of a process group.

The library uses tensors where they lie if a plug-in reaches their device (rueda/torch/placed.py). Operations on others
run on copies in the host's memory. A copy costs what the device's own copy costs; it is made before the operation is
enqueued and written back when its handle is waited for.
"""

from typing import Any, List, Sequence, Tuple

import torch

from rueda import session
from rueda.handles import Handle
from rueda.torch import placed


def require_numbers(what: str, tensor: torch.Tensor) -> None:
    """Raises ValueError if the tensor is on `meta`, which stores no numbers. what: the operation, for the sentence."""
    if tensor.is_meta:
        raise ValueError(f"rank {session.current().rank}: {what} of a tensor of shape {list(tensor.shape)} on {tensor.device}, which "
                         "stores no numbers; use a tensor with memory, such as torch.empty_like(tensor, device='cpu')")  # fmt: skip


class Reached:
    """The tensors that the library uses in one operation: the caller's own if it reaches them, else copies of them on
    the host.

    Each method first waits until the device has finished what it had to do with a tensor that it copies. The copy back
    is complete when the wait for the handle returns. For the thread that enqueues the operation.
    """

    def __init__(self, what: str):
        """what: the operation, for error sentences."""
        self._what = what
        self._copies: List[Tuple[torch.Tensor, torch.Tensor]] = []  # the caller's tensor, and its copy

    def to_read(self, tensor: torch.Tensor) -> torch.Tensor:
        """For a tensor that the operation reads."""
        require_numbers(self._what, tensor)
        return tensor.detach() if placed.is_reached(tensor) else tensor.detach().cpu()

    def to_change(self, tensor: torch.Tensor) -> torch.Tensor:
        """For a tensor that the operation reads and writes."""
        used = self.to_read(tensor)
        if used.device != tensor.device:
            self._copies.append((tensor, used))
        return used

    def from_to(self, source: torch.Tensor, output: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """For a tensor that the operation reads, and one that it only writes. Both are on one device then."""
        require_numbers(self._what, source)
        require_numbers(self._what, output)
        if source.device == output.device and placed.is_reached(source):
            return source.detach(), output.detach()
        read, written = source.detach().cpu(), output.detach()
        if not output.is_cpu:
            # Nothing to wait for if the copy of `source` has waited for this device.
            written = torch.empty_like(output, device="cpu") if output.device == source.device else written.cpu()
            self._copies.append((output, written))
        return read, written

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
