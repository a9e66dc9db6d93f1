"""Rueda for tf.keras, with the function names of Horovod.

    import rueda.tensorflow.keras as hvd

    hvd.init()
    model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01 * hvd.size())), ...)
    model.fit(..., callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])

docs/guide/keras.md explains each step.
"""

from rueda import shared as _shared
from rueda.shared import *
from rueda.tensorflow.compression import Compression
from rueda.tensorflow.keras import callbacks, elastic
from rueda.tensorflow.keras.functions import (
    allgather,
    allreduce,
    broadcast,
    broadcast_global_variables,
    load_model,
    reducescatter,
)
from rueda.tensorflow.keras.optimizers import DistributedOptimizer, PartialDistributedOptimizer

__all__ = _shared.__all__ + [
    "Compression", "DistributedOptimizer", "PartialDistributedOptimizer", "allgather", "allreduce", "broadcast",
    "broadcast_global_variables", "callbacks", "elastic", "load_model", "reducescatter",
]  # fmt: skip
