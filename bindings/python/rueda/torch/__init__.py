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

from rueda.torch import requirement as _requirement  # noqa: F401, I001  # isort: skip  # first, since it may refuse
from rueda import shared as _shared
from rueda.handles import Handle
from rueda.shared import *
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
from rueda.torch.shared_tensors import empty, empty_like, zeros, zeros_like
from rueda.torch.sparse import sparse_allreduce_async
from rueda.torch.state import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from rueda.torch.sync_batch_norm import SyncBatchNorm

__all__ = _shared.__all__ + [
    "Compression", "DistributedOptimizer", "Handle", "SyncBatchNorm", "allgather", "allgather_async", "allreduce",
    "allreduce_", "allreduce_async", "allreduce_async_", "alltoall", "alltoall_async", "barrier", "barrier_async",
    "broadcast", "broadcast_", "broadcast_async", "broadcast_async_", "broadcast_optimizer_state", "broadcast_parameters",
    "elastic", "empty", "empty_like", "grouped_allgather", "grouped_allgather_async", "grouped_allreduce",
    "grouped_allreduce_", "grouped_allreduce_async", "grouped_allreduce_async_", "grouped_reducescatter",
    "grouped_reducescatter_async", "join", "join_async", "poll", "recv", "recv_async", "reducescatter", "reducescatter_",
    "reducescatter_async", "reducescatter_async_", "send", "send_async", "sparse_allreduce_async", "synchronize", "zeros",
    "zeros_like",
]  # fmt: skip

graphs.leave_alone(*(module for name, module in tuple(sys.modules.items()) if name.startswith(("rueda.torch", "rueda.handles"))))
