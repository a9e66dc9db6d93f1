"""Tensors in memory that the other ranks of the host map, made as PyTorch makes tensors."""

import math
from typing import Any, Optional

import torch

from rueda.tensor_memory import allocate, extents


def _make(shape: Any, dtype: Optional[torch.dtype], requires_grad: bool, device: Any) -> torch.Tensor:
    if device is not None and torch.device(device).type != "cpu":
        raise ValueError(f"device {device}: shared tensors lie in the host's memory; leave `device` out")
    dtype = torch.get_default_dtype() if dtype is None else dtype
    count = math.prod(shape)
    block = allocate(count * torch.empty(0, dtype=dtype).element_size())  # before PyTorch 2.1 a dtype has no itemsize
    if count == 0:
        return torch.empty(shape, dtype=dtype, requires_grad=requires_grad)
    return torch.frombuffer(block, dtype=dtype, count=count).view(shape).requires_grad_(requires_grad)


def empty(*size: Any, dtype: Optional[torch.dtype] = None, requires_grad: bool = False, device: Any = None) -> torch.Tensor:
    """Returns a tensor like torch.empty(), in memory that the ranks of this host reduce in place, without a copy.

    The memory lives as long as the tensor and its views; it belongs to this session, so make the tensor anew after
    another init(). Each call takes whole pages: make one large tensor, and small ones as its views. Raises ValueError
    for a wrong shape or another device, HorovodInternalError beyond RUEDA_SHARED_TENSOR_BYTES.
    """
    return _make(extents(size, "empty"), dtype, requires_grad, device)


def zeros(*size: Any, dtype: Optional[torch.dtype] = None, requires_grad: bool = False, device: Any = None) -> torch.Tensor:
    """As empty(), with zeros."""
    return _make(extents(size, "zeros"), dtype, requires_grad, device)


def empty_like(tensor: torch.Tensor, *, dtype: Optional[torch.dtype] = None, requires_grad: bool = False) -> torch.Tensor:
    """As empty(), with the shape of `tensor`, the dtype too unless one is given, and the order of its dimensions in
    memory."""
    dtype = tensor.dtype if dtype is None else dtype
    strides = torch.empty_like(tensor, device="meta").stride()
    flat = _make((tensor.numel(),), dtype, False, None)
    return flat.as_strided(tensor.shape, strides).requires_grad_(requires_grad)


def zeros_like(tensor: torch.Tensor, *, dtype: Optional[torch.dtype] = None, requires_grad: bool = False) -> torch.Tensor:
    """As empty_like(), with zeros."""
    return empty_like(tensor, dtype=dtype, requires_grad=requires_grad)
