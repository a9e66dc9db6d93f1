"""Rueda for MXNet 1.9.1, with the function names of Horovod. Import it before mxnet.

    import rueda.mxnet as hvd
    import mxnet as mx

    hvd.init()
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1 * hvd.size()})

Arrays are on the CPU.
"""

from rueda.mxnet import versions as _versions  # isort: skip  (first: it makes MXNet importable)
from rueda import shared as _shared
from rueda.mxnet.operations import (
    allgather,
    allreduce,
    allreduce_,
    alltoall,
    broadcast,
    broadcast_,
    grouped_allgather,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_reducescatter,
    reducescatter,
)
from rueda.mxnet.optimizer import Compression, DistributedOptimizer, DistributedTrainer, broadcast_parameters
from rueda.shared import *
from rueda.waits import barrier, join

__all__ = _shared.__all__ + [
    "Compression", "DistributedOptimizer", "DistributedTrainer", "allgather", "allreduce", "allreduce_", "alltoall", "barrier",
    "broadcast", "broadcast_", "broadcast_parameters", "grouped_allgather", "grouped_allreduce", "grouped_allreduce_",
    "grouped_reducescatter", "join", "reducescatter",
]  # fmt: skip
