"""Rueda for PyTorch, with the function names of Horovod.

    import rueda.torch as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1 * hvd.size()),
                                         named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

Start the script with `hvdrun -np 4 python train.py`; docs/guide/pytorch.md explains each step.
"""

import sys

from rueda.build import (
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rocm_built,
)
from rueda.diagnosis import dump, stats
from rueda.errors import (
    CollectiveError,
    CollectiveTimeoutError,
    HorovodInternalError,
    HostsUpdatedInterrupt,
    MismatchError,
    NotInitializedError,
    PeerLostError,
    ShutDownError,
    UnsupportedError,
)
from rueda.handles import Handle
from rueda.operations import Adasum, Average, BitAnd, BitOr, BitXor, Max, Min, Product, Sum
from rueda.process_sets import ProcessSet, add_process_set, global_process_set, init, remove_process_set
from rueda.session import (
    cross_rank,
    cross_size,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
)
from rueda.timeline import start_timeline, stop_timeline
from rueda.torch import elastic, graphs
from rueda.torch.asynchronous import (
    allreduce_async,
    barrier,
    barrier_async,
    broadcast_async,
    grouped_allreduce_async,
    join,
    join_async,
    poll,
    synchronize,
)
from rueda.torch.compression import Compression
from rueda.torch.differentiable import allreduce, broadcast, grouped_allreduce
from rueda.torch.differentiable_rows import (
    allgather,
    alltoall,
    grouped_allgather,
    grouped_reducescatter,
    reducescatter,
)
from rueda.torch.in_place import (
    allreduce_,
    allreduce_async_,
    broadcast_,
    broadcast_async_,
    grouped_allreduce_,
    grouped_allreduce_async_,
)
from rueda.torch.messages import recv, recv_async, send, send_async
from rueda.torch.optimizer import DistributedOptimizer
from rueda.torch.rows import (
    allgather_async,
    alltoall_async,
    grouped_allgather_async,
    grouped_reducescatter_async,
    reducescatter_,
    reducescatter_async,
    reducescatter_async_,
)
from rueda.torch.sparse import sparse_allreduce_async
from rueda.torch.state import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from rueda.torch.sync_batch_norm import SyncBatchNorm

__all__ = [
    "Adasum", "Average", "BitAnd", "BitOr", "BitXor", "CollectiveError", "CollectiveTimeoutError", "Compression",
    "DistributedOptimizer", "Handle", "HorovodInternalError", "HostsUpdatedInterrupt", "Max", "Min", "MismatchError",
    "NotInitializedError", "PeerLostError", "ProcessSet", "Product", "ShutDownError", "Sum", "SyncBatchNorm",
    "UnsupportedError", "add_process_set", "allgather", "allgather_async", "allgather_object", "allreduce", "allreduce_",
    "allreduce_async", "allreduce_async_", "alltoall", "alltoall_async", "barrier", "barrier_async", "broadcast",
    "broadcast_", "broadcast_async", "broadcast_async_", "broadcast_object", "broadcast_optimizer_state",
    "broadcast_parameters", "ccl_built", "cross_rank", "cross_size", "cuda_built", "ddl_built", "dump", "elastic",
    "global_process_set", "gloo_built", "gloo_enabled", "grouped_allgather", "grouped_allgather_async", "grouped_allreduce",
    "grouped_allreduce_", "grouped_allreduce_async", "grouped_allreduce_async_", "grouped_reducescatter",
    "grouped_reducescatter_async", "init", "is_homogeneous", "is_initialized", "join", "join_async", "local_rank",
    "local_size", "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built", "poll", "rank", "recv", "recv_async",
    "reducescatter", "reducescatter_", "reducescatter_async", "reducescatter_async_", "remove_process_set", "rocm_built",
    "send", "send_async", "shutdown", "size", "sparse_allreduce_async", "start_timeline", "stats", "stop_timeline",
    "synchronize",
]  # fmt: skip

graphs.leave_alone(*(module for name, module in tuple(sys.modules.items()) if name.startswith(("rueda.torch", "rueda.handles"))))
