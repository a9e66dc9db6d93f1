"""PyTorch's tensors in the form that the library takes: an address, a dtype and extents."""

from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple

import torch

from rueda._native import lib
from rueda.operations import BROADCAST, REDUCTIONS, dtype_to_move
from rueda.torch import placed

_PAIRS = [
    ("uint8", lib.RUEDA_U8), ("int8", lib.RUEDA_I8), ("uint16", lib.RUEDA_U16), ("int16", lib.RUEDA_I16),
    ("uint32", lib.RUEDA_U32), ("int32", lib.RUEDA_I32), ("uint64", lib.RUEDA_U64), ("int64", lib.RUEDA_I64),
    ("float16", lib.RUEDA_F16), ("bfloat16", lib.RUEDA_BF16), ("float32", lib.RUEDA_F32), ("float64", lib.RUEDA_F64),
    ("bool", lib.RUEDA_BOOL), ("complex64", lib.RUEDA_COMPLEX64), ("complex128", lib.RUEDA_COMPLEX128),
]  # fmt: skip
DTYPES = {getattr(torch, name): number for name, number in _PAIRS if hasattr(torch, name)}
_TORCH_DTYPES = {number: dtype for dtype, number in DTYPES.items()}


def torch_dtype(number: int) -> torch.dtype:
    """PyTorch's dtype for a number of rueda.h."""
    return _TORCH_DTYPES[number]


def dtype_number(tensor: torch.Tensor, kind: int = BROADCAST) -> int:
    """The number of the tensor's dtype for an operation of this kind.

    A dtype that the library does not know, such as float8, is moved by its size; ranks do not compare which dtype it
    is. Raises ValueError if the operation would reduce such a dtype, or if the tensor is quantised.
    """
    number = DTYPES.get(tensor.dtype)
    if number is not None:
        return number
    if tensor.is_quantized:
        raise ValueError(f"dtype {tensor.dtype} is not supported: the tensor's scale would not be sent; use its int_repr()")
    if kind in REDUCTIONS:
        names = ", ".join(name for name, _ in _PAIRS)
        raise ValueError(f"dtype {tensor.dtype} can be moved, as by a broadcast, but not reduced; {names} can be reduced")
    return dtype_to_move(str(tensor.dtype), tensor.element_size())


def memory_extents(tensor: torch.Tensor) -> Optional[Sequence[int]]:
    """The extents of a dense tensor; None if elements overlap or leave gaps.

    If the tensor is not row-major, the order of its dimensions in memory follows (see rueda_py_tensor in calls.h).
    Ranks with different orders get a MismatchError.
    """
    if tensor.is_contiguous():
        return tensor.shape
    order = sorted(range(tensor.dim()), key=lambda d: (-tensor.stride(d), d))
    expected = 1
    for dimension in reversed(order):
        if tensor.shape[dimension] != 1:
            if tensor.stride(dimension) != expected:
                return None
            expected *= tensor.shape[dimension]
    return (*tensor.shape, lib.RUEDA_PY_ORDER, *order)


def in_place(tensor: torch.Tensor) -> Sequence[int]:
    """The extents of a tensor for an operation in place. Raises ValueError if it is sparse, lazily conjugated, or not
    dense."""
    require_strided(tensor)
    if tensor.is_conj() or tensor.is_neg():
        raise ValueError("the tensor is a lazily conjugated or negated view, which an operation in place cannot change; use the "
                         "operation that returns a new tensor")  # fmt: skip
    extents = memory_extents(tensor)
    if extents is None:
        raise ValueError(f"shape {list(tensor.shape)} with strides {list(tensor.stride())} is not contiguous: an operation "
                         "in place needs dense memory; use the operation that returns a new tensor")  # fmt: skip
    return extents


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, detached, in the host's memory: the same memory if it is there already. Raises ValueError if it is on
    `meta`."""
    if tensor.is_meta:
        raise ValueError(f"the tensor of shape {list(tensor.shape)} is on {tensor.device}, which stores no numbers; use one on a device with memory")
    return tensor.detach().cpu()


def within_reach(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, detached, in memory that the library uses: on the host unless a plug-in reaches its device. Raises
    ValueError if it is on `meta`."""
    return tensor.detach() if placed.is_reached(tensor) else on_host(tensor)


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its own numbers in memory. PyTorch conjugates and negates some tensors only when they are read.
    """
    return tensor.resolve_conj().resolve_neg() if tensor.is_conj() or tensor.is_neg() else tensor


def dense(tensor: torch.Tensor) -> Tuple[torch.Tensor, Sequence[int]]:
    """Returns the tensor, or a contiguous copy if its memory has gaps or overlaps, and its extents, see
    memory_extents()."""
    require_strided(tensor)
    tensor = resolved(tensor)
    extents = memory_extents(tensor)
    if extents is not None:
        return tensor, extents
    copy = tensor.contiguous()
    return copy, copy.shape


def listed(tensors: Any) -> List[torch.Tensor]:
    """The tensors of a group as a list. Raises ValueError if the argument is a single tensor, or not iterable."""
    if isinstance(tensors, torch.Tensor) or not isinstance(tensors, Iterable):
        raise ValueError(f"give a list of torch.Tensor, not a {type(tensors).__name__}")
    return list(tensors)


def require_strided(tensor: torch.Tensor) -> None:
    """Raises ValueError if the argument is not a tensor, or a sparse one."""
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"give a torch.Tensor, not a {type(tensor).__name__}")
    if tensor.layout != torch.strided:
        raise ValueError(f"the tensor's layout is {tensor.layout}; sparse_allreduce_async() reduces sparse tensors")


def in_graph(tensor: torch.Tensor) -> bool:
    """Returns whether gradients flow through the tensor: it is the result of a differentiable function, not a leaf or
    its view."""
    if not tensor.requires_grad or not torch.is_grad_enabled():
        return False
    return not (tensor if tensor._base is None else tensor._base).is_leaf


def _write_nothing(tensor: torch.Tensor) -> None:
    """Changes no element in place. Before PyTorch 2.1 this is how to advance a tensor's version counter."""
    if not tensor.is_inference():
        tensor.detach().as_strided((0,), (1,)).zero_()


# An object that keeps a tensor's present memory alive, even after `tensor.data = other` has given the tensor other
# memory.
memory_of: Callable[[torch.Tensor], Any] = getattr(torch.Tensor, "untyped_storage", torch.Tensor.detach)

# Tells autograd that the tensor's numbers are overwritten: a backward pass that saved them must raise an error.
count_change: Callable[[torch.Tensor], None] = getattr(torch.autograd.graph, "increment_version", _write_nothing)
