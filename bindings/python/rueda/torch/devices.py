"""Which tensors the process groups of torch.distributed reach: those on the host, and some operations others by a copy there."""

import torch

from rueda import session


def require(what: str, tensor: torch.Tensor, by_copy: bool = False) -> None:
    """ValueError: the operation does not reach the numbers of the tensor. by_copy: it takes those of devices by way of the host."""
    if tensor.is_cpu:
        return
    who = f"rank {session.current().rank}: {what} of a tensor of shape {list(tensor.shape)} on {tensor.device}"
    if tensor.is_meta:
        raise ValueError(f"{who}, where it has no numbers: make it on a device that holds some, as by torch.empty_like(tensor, "
                         "device='cpu')")  # fmt: skip
    if not by_copy:
        raise ValueError(f"{who}: of the operations of Rueda's groups only all_reduce and broadcast take tensors that are not on "
                         "the host; give tensor.cpu(), and copy what comes back")  # fmt: skip
