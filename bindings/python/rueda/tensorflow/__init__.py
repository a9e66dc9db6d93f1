"""Rueda for TensorFlow 2.13 and newer, with the function names of Horovod.

    import rueda.tensorflow as hvd

    hvd.init()
    tape = hvd.DistributedGradientTape(tape)      # in the training step
    hvd.broadcast_variables(model.variables, root_rank=0)   # after the first step

Start the script with `hvdrun -np 4 python train.py`; docs/guide/tensorflow.md explains each step.
"""

import rueda.own_libraries  # noqa: F401, I001  # before librueda is loaded otherwise
from rueda import shared as _shared
from rueda.shared import *
from rueda.tensorflow import elastic, util
from rueda.tensorflow.compression import Compression
from rueda.tensorflow.objects import allgather_object, broadcast_object, broadcast_object_fn
from rueda.tensorflow.operations import (
    allgather,
    allreduce,
    alltoall,
    barrier,
    broadcast,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    reducescatter,
    size_op,
)
from rueda.tensorflow.optimizer import DistributedOptimizer
from rueda.tensorflow.sync_batch_norm import SyncBatchNormalization
from rueda.tensorflow.tape import DistributedGradientTape, PartialDistributedGradientTape
from rueda.tensorflow.util import _executing_eagerly, gpu_available
from rueda.tensorflow.variables import (
    BroadcastGlobalVariablesHook,
    broadcast_,
    broadcast_global_variables,
    broadcast_variables,
)

__all__ = _shared.__all__ + [
    "BroadcastGlobalVariablesHook", "Compression", "DistributedGradientTape", "DistributedOptimizer",
    "PartialDistributedGradientTape", "SyncBatchNormalization", "_executing_eagerly", "allgather", "allreduce", "alltoall",
    "barrier", "broadcast", "broadcast_", "broadcast_global_variables", "broadcast_object_fn", "broadcast_variables",
    "elastic", "gpu_available", "grouped_allgather", "grouped_allreduce", "grouped_reducescatter", "join", "local_rank_op",
    "local_size_op", "process_set_included_op", "rank_op", "reducescatter", "size_op", "util",
]  # fmt: skip
