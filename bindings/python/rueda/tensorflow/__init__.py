"""Rueda for TensorFlow 2.13 and newer, with the function names of Horovod.

    import rueda.tensorflow as hvd

    hvd.init()
    tape = hvd.DistributedGradientTape(tape)      # in the training step
    hvd.broadcast_variables(model.variables, root_rank=0)   # after the first step

Start the script with `hvdrun -np 4 python train.py`; docs/guide/tensorflow.md explains each step.
"""

import rueda.own_libraries  # noqa: F401, I001  # before librueda is loaded otherwise
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
from rueda.operations import Adasum, Average, Max, Min, Product, Sum
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
from rueda.timeline import start_timeline, stop_timeline

__all__ = [
    "Adasum", "Average", "BroadcastGlobalVariablesHook", "CollectiveError", "CollectiveTimeoutError", "Compression",
    "DistributedGradientTape", "DistributedOptimizer", "HorovodInternalError", "HostsUpdatedInterrupt", "Max", "Min",
    "MismatchError", "NotInitializedError", "PartialDistributedGradientTape", "PeerLostError", "ProcessSet", "Product",
    "ShutDownError", "Sum", "SyncBatchNormalization", "UnsupportedError", "_executing_eagerly", "add_process_set", "allgather",
    "allgather_object", "allreduce", "alltoall", "barrier", "broadcast", "broadcast_", "broadcast_global_variables",
    "broadcast_object", "broadcast_object_fn", "broadcast_variables", "ccl_built", "cross_rank", "cross_size", "cuda_built",
    "ddl_built", "dump", "elastic", "global_process_set", "gloo_built", "gloo_enabled", "gpu_available", "grouped_allgather",
    "grouped_allreduce", "grouped_reducescatter", "init", "is_homogeneous", "is_initialized", "join", "local_rank",
    "local_rank_op", "local_size", "local_size_op", "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built",
    "process_set_included_op", "rank", "rank_op", "reducescatter", "remove_process_set", "rocm_built", "shutdown", "size",
    "size_op", "start_timeline", "stats", "stop_timeline", "util",
]  # fmt: skip
