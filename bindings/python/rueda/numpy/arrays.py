"""What the library needs to know of arrays, and which objects are taken for arrays."""

from typing import Any, List, Sequence, Tuple

import numpy

from rueda import operations
from rueda._native import lib
from rueda.operations import REDUCTIONS

_DTYPES = {
    numpy.dtype(name): number
    for name, number in [
        ("uint8", lib.RUEDA_U8), ("int8", lib.RUEDA_I8), ("uint16", lib.RUEDA_U16), ("int16", lib.RUEDA_I16),
        ("uint32", lib.RUEDA_U32), ("int32", lib.RUEDA_I32), ("uint64", lib.RUEDA_U64), ("int64", lib.RUEDA_I64),
        ("float16", lib.RUEDA_F16), ("float32", lib.RUEDA_F32), ("float64", lib.RUEDA_F64), ("bool", lib.RUEDA_BOOL),
        ("complex64", lib.RUEDA_COMPLEX64), ("complex128", lib.RUEDA_COMPLEX128),
    ]
}  # fmt: skip


def dtype_number(array: numpy.ndarray, kind: int) -> int:
    """The library's number of the array's dtype. Raises ValueError if operations of this kind cannot take it."""
    number = _DTYPES.get(array.dtype)
    if number is not None:
        return number
    if array.dtype.name == "bfloat16":  # of the package ml_dtypes
        return lib.RUEDA_BF16
    if array.dtype.hasobject:
        raise ValueError(f"dtype {array.dtype} is not supported: it holds Python objects; give an array of numbers, text or dates")
    if kind in REDUCTIONS:
        names = ", ".join(map(str, _DTYPES))
        raise ValueError(f"dtype {array.dtype} can be moved, as by a broadcast, but not reduced; {names} can be reduced")
    return operations.dtype_to_move(str(array.dtype), array.dtype.itemsize)


_DLPACK_ON_HOST = (1, 3, 11)  # DLPack's numbers for the CPU, and for memory of the host that CUDA or ROCm has pinned


def _from_dlpack(value: Any) -> numpy.ndarray:
    """The memory of another framework's array as an array of NumPy, without a copy."""
    device = value.__dlpack_device__()
    if int(device[0]) not in _DLPACK_ON_HOST:
        raise ValueError(f"a {type(value).__name__} is on a device (DLPack's type {int(device[0])}); rueda.numpy takes memory of the host: "
                         "copy it to the CPU first")  # fmt: skip
    try:
        return numpy.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as error:
        raise ValueError(f"a {type(value).__name__} cannot be read by DLPack: {error}; give a numpy.ndarray") from None


def array_of(value: Any) -> numpy.ndarray:
    """The value as a C-contiguous array: the same memory if it is one, or if DLPack gives one, else a copy.

    Raises ValueError if it is another framework's array on a device, or cannot be read.
    """
    if not isinstance(value, (numpy.ndarray, numpy.generic)) and hasattr(value, "__dlpack_device__"):
        value = _from_dlpack(value)
    return numpy.asarray(value, order="C")


def in_place(array: numpy.ndarray) -> numpy.ndarray:
    """The array. Raises ValueError if an operation cannot write into it."""
    if not isinstance(array, numpy.ndarray) or not array.flags.c_contiguous or not array.flags.writeable:
        raise ValueError("an operation in place needs a writeable, C-contiguous numpy.ndarray; use the one that returns a new array")
    return array


def listed(arrays: Any) -> List[Any]:
    """The arrays of a group as a list. Raises ValueError if the argument is a single array, or not a list or tuple."""
    if not isinstance(arrays, (list, tuple)):
        raise ValueError(f"give a list of arrays, not a {type(arrays).__name__}")
    return list(arrays)


def view_of(array: numpy.ndarray, kind: int) -> Tuple[int, int, Sequence[int]]:
    """Address, dtype and extents, as the library takes them."""
    return array.ctypes.data, dtype_number(array, kind), array.shape
