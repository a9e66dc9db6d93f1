"""Rueda for Keras 2, and for Keras 3 on TensorFlow, JAX and PyTorch, with the function names of Horovod.

    import rueda.keras as hvd

    hvd.init()
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size())), ...)
    model.fit(..., callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])

docs/guide/keras.md explains each step.
"""

import rueda.own_libraries  # noqa: F401, I001  # before librueda is loaded otherwise
from rueda.keras import requirement as _requirement  # noqa: F401  # isort: skip  # first, since it may refuse
from rueda import shared as _shared
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
from rueda.shared import *

__all__ = _shared.__all__ + [
    "Compression", "DistributedOptimizer", "PartialDistributedOptimizer", "allgather", "allreduce", "broadcast",
    "broadcast_global_variables", "callbacks", "elastic", "load_model", "reducescatter",
]  # fmt: skip
