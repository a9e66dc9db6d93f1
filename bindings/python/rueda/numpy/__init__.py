"""Rueda for NumPy arrays, and for every array on the host that DLPack can pass: the functions of rueda.torch, with the
same arguments, without gradients.

    import rueda.numpy as hvd

    hvd.init()
    mean = hvd.allreduce(np.array([1.0, 2.0]))

A function with a name that ends in `_` works in place, on a C-contiguous numpy.ndarray. The others copy an array that is not
contiguous, and return a new array of NumPy. They also take arrays of other frameworks with `__dlpack__`, without a copy,
but for those of bfloat16, which NumPy cannot read there; an array with the dtype bfloat16 of ml_dtypes is taken.
Every function raises ValueError for wrong arguments, with nothing enqueued, and HorovodInternalError for later errors.
Functions with _async in their name return a handle; an array is lent until its wait() has returned. Any thread may call.
"""

from rueda.numpy import requirement as _requirement  # noqa: F401, I001  # isort: skip  # first, since it may refuse
from rueda import shared as _shared
from rueda.handles import Handle
from rueda.numpy.compression import Compression
from rueda.numpy.elementwise import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
)
from rueda.numpy.messages import recv, recv_async, send, send_async
from rueda.numpy.parameters import broadcast_parameters
from rueda.numpy.rows import (
    allgather,
    allgather_async,
    alltoall,
    alltoall_async,
    grouped_allgather,
    grouped_allgather_async,
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_,
    reducescatter_async,
    reducescatter_async_,
)
from rueda.numpy.shared_arrays import empty, empty_like, zeros, zeros_like
from rueda.shared import *
from rueda.waits import barrier, barrier_async, join, join_async, poll, synchronize

__all__ = _shared.__all__ + [
    "Compression", "Handle", "allgather", "allgather_async", "allreduce", "allreduce_", "allreduce_async",
    "allreduce_async_", "alltoall", "alltoall_async", "barrier", "barrier_async", "broadcast", "broadcast_",
    "broadcast_async", "broadcast_async_", "broadcast_parameters", "empty", "empty_like", "grouped_allgather",
    "grouped_allgather_async", "grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async",
    "grouped_allreduce_async_", "grouped_reducescatter", "grouped_reducescatter_async", "join", "join_async", "poll", "recv",
    "recv_async", "reducescatter", "reducescatter_", "reducescatter_async", "reducescatter_async_", "send", "send_async",
    "synchronize", "zeros", "zeros_like",
]  # fmt: skip
