"""Collectives on values, and load_model(), for tf.keras. Values are arrays, numbers or tensors; results are arrays."""

from typing import Any

import rueda.tensorflow as tensors
from rueda.keras.settings import Settings
from rueda.keras.wrapping import wrap_in_place
from rueda.operations import Average
from rueda.tensorflow.compression import Compression
from rueda.tensorflow.library import tf


def allreduce(value: Any, name: Any = None, average: Any = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0, op: Any = None,
              compression: Any = Compression.none) -> Any:
    """rueda.tensorflow.allreduce() of a value."""
    return tensors.allreduce(value, average, "", "", compression, op, prescale_factor, postscale_factor, name).numpy()


def allgather(value: Any, name: Any = None) -> Any:
    """rueda.tensorflow.allgather() of a value."""
    return tensors.allgather(value, name).numpy()


def broadcast(value: Any, root_rank: int, name: Any = None) -> Any:
    """rueda.tensorflow.broadcast() of a value."""
    return tensors.broadcast(value, root_rank, name).numpy()


def reducescatter(value: Any, name: Any = None, op: int = Average) -> Any:
    """rueda.tensorflow.reducescatter() of a value."""
    return tensors.reducescatter(value, op=op, name=name).numpy()


def broadcast_global_variables(root_rank: int) -> Any:
    """rueda.tensorflow.broadcast_global_variables()."""
    return tensors.broadcast_global_variables(root_rank)


def load_model(filepath: Any, custom_optimizers: Any = None, custom_objects: Any = None, compression: Any = Compression.none,
               legacy_opts: bool = False) -> Any:
    """Loads a model of tf.keras, whose optimizer, with the saved state, then reduces its gradients over the ranks.

    custom_optimizers: classes of optimizers that the file names. legacy_opts: ignored.
    """
    known = {each.__name__: each for each in custom_optimizers or ()}
    model = tf.keras.models.load_model(filepath, custom_objects={**known, **(custom_objects or {})})
    if getattr(model, "optimizer", None) is not None:
        wrap_in_place(model.optimizer, Settings("Distributed" + type(model.optimizer).__name__, compression))
    return model
