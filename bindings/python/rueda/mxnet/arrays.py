"""MXNet's arrays as arrays of NumPy over the same memory.

MXNet runs its operations on threads of its engine, so memory is read once the writes before it have ended, and written
once the reads have. Rueda's operations block, hence the engine never sees an array in their hands.
"""

import ctypes
from typing import Any, List

import numpy
from mxnet import nd
from mxnet.base import _LIB, check_call
from mxnet.ndarray import NDArray


def _checked(tensor: Any) -> Any:
    if not isinstance(tensor, NDArray):
        raise ValueError(f"give an mxnet.nd.NDArray, not a {type(tensor).__name__}")
    if tensor.stype != "default":
        raise ValueError(f"the array's storage type is {tensor.stype}; only dense arrays are supported: tensor.tostype('default')")
    if tensor.context.device_type not in ("cpu", "cpu_pinned"):
        raise ValueError(f"the array is on {tensor.context}; rueda.mxnet takes arrays on the CPU: tensor.as_in_context(mxnet.cpu())")
    return tensor


def _memory(tensor: Any) -> numpy.ndarray:
    """The memory of an array that the engine is done with. Before, it may have none yet: MXNet allocates late."""
    dtype = numpy.dtype(tensor.dtype)
    size = int(numpy.prod(tensor.shape, dtype=numpy.int64)) * dtype.itemsize
    if size == 0:
        return numpy.empty(tensor.shape, dtype)
    pointer = ctypes.c_void_p()
    check_call(_LIB.MXNDArrayGetData(tensor.handle, ctypes.byref(pointer)))
    return numpy.frombuffer((ctypes.c_char * size).from_address(pointer.value), dtype).reshape(tensor.shape)


def to_read(tensor: Any) -> numpy.ndarray:
    """The memory, which holds what the program has computed. Raises ValueError if it is not a dense array on the CPU."""
    _checked(tensor).wait_to_read()
    return _memory(tensor)


def to_write(tensor: Any) -> numpy.ndarray:
    """The memory, which nothing reads or writes any more. Raises ValueError as to_read() does."""
    check_call(_LIB.MXNDArrayWaitToWrite(_checked(tensor).handle))
    return _memory(tensor)


def like(result: numpy.ndarray, tensor: Any) -> Any:
    """The numbers as an array of the tensor's kind (mxnet.nd or mxnet.np) and dtype."""
    made = nd.array(result, dtype=tensor.dtype)
    return made if type(tensor) is NDArray else made.as_np_ndarray()


def listed(tensors: Any) -> List[Any]:
    """The arrays of a group as a list. Raises ValueError if the argument is not a list or tuple."""
    if not isinstance(tensors, (list, tuple)):
        raise ValueError(f"give a list of mxnet.nd.NDArray, not a {type(tensors).__name__}")
    return list(tensors)
