"""Arrays in memory that the other ranks of the host map, made as NumPy makes arrays. Other frameworks take them by
DLPack, as torch.from_dlpack() does."""

import math
from typing import Any

import numpy

from rueda.tensor_memory import allocate, extents


def empty(shape: Any, dtype: Any = float) -> numpy.ndarray:
    """Returns an array like numpy.empty(), in memory that the ranks of this host reduce in place, without a copy.

    The memory lives as long as the array and its views; it belongs to this session, so make the array anew after
    another init(). Each call takes whole pages: make one large array, and small ones as its views. Raises ValueError
    for a wrong shape or a dtype of Python objects, HorovodInternalError beyond RUEDA_SHARED_TENSOR_BYTES.
    """
    shape, dtype = extents((shape,), "empty"), numpy.dtype(dtype)
    if dtype.hasobject:
        raise ValueError(f"dtype {dtype} holds Python objects, which cannot lie in shared memory")
    return numpy.ndarray(shape, dtype, allocate(math.prod(shape) * dtype.itemsize))


def zeros(shape: Any, dtype: Any = float) -> numpy.ndarray:
    """As empty(), with zeros."""
    return empty(shape, dtype)


def empty_like(array: Any, dtype: Any = None) -> numpy.ndarray:
    """As empty(), with the shape of `array`, and its dtype unless one is given. It is C-contiguous."""
    like = numpy.asarray(array)
    return empty(like.shape, like.dtype if dtype is None else dtype)


def zeros_like(array: Any, dtype: Any = None) -> numpy.ndarray:
    """As empty_like(), with zeros."""
    return empty_like(array, dtype)
