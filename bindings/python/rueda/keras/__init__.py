"""Rueda for Keras 2, and for Keras 3 on TensorFlow, JAX and PyTorch, with the function names of Horovod.

    import rueda.keras as hvd

    hvd.init()
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size())), ...)
    model.fit(..., callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])

docs/guide/keras.md explains each step.
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
from rueda.errors import HorovodInternalError, HostsUpdatedInterrupt
from rueda.keras import callbacks, elastic
from rueda.keras.functions import (
    Compression,
    allgather,
    allreduce,
    broadcast,
    broadcast_global_variables,
    load_model,
    reducescatter,
)
from rueda.keras.optimizers import DistributedOptimizer, PartialDistributedOptimizer
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
from rueda.timeline import start_timeline, stop_timeline

__all__ = [
    "Adasum", "Average", "Compression", "DistributedOptimizer", "HorovodInternalError", "HostsUpdatedInterrupt", "Max", "Min",
    "PartialDistributedOptimizer", "ProcessSet", "Product", "Sum", "add_process_set", "allgather", "allreduce", "broadcast",
    "broadcast_global_variables", "callbacks", "ccl_built", "cross_rank", "cross_size", "cuda_built", "ddl_built", "elastic",
    "global_process_set", "gloo_built", "gloo_enabled", "init", "is_homogeneous", "is_initialized", "load_model", "local_rank",
    "local_size", "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built", "rank", "reducescatter",
    "remove_process_set", "rocm_built", "shutdown", "size", "start_timeline", "stop_timeline",
]  # fmt: skip
