"""Collectives on values, and load_model(), on any backend. Values are arrays, numbers or tensors; results are arrays."""

from typing import Any

import keras

import rueda.numpy as arrays
from rueda.keras.settings import Settings, given
from rueda.keras.values import as_array
from rueda.keras.wrapping import wrap_in_place
from rueda.operations import Average


def _backend() -> str:
    return keras.backend.backend()


def _binding() -> Any:
    """The binding that has every collective for the backend's arrays."""
    if _backend() == "torch":
        import rueda.torch as binding
    elif _backend() == "jax":
        import rueda.jax as binding
    else:
        import rueda.tensorflow as binding
    return binding


def _tensor(value: Any) -> Any:
    if _backend() == "torch":
        import torch

        return torch.as_tensor(as_array(value))
    return as_array(value)


class _Names(type):
    """Finds a compressor in the backend's binding when it is asked for."""

    def __getattr__(cls, name: str) -> Any:
        if name not in ("none", "fp16", "bf16"):
            raise AttributeError(f"Compression has no {name!r}")
        return getattr(_binding().Compression, name)


class Compression(metaclass=_Names):
    """The compressors: none, fp16, bf16."""


def allreduce(value: Any, name: Any = None, average: Any = True, prescale_factor: float = 1.0, postscale_factor: float = 1.0, op: Any = None,
              compression: Any = None) -> Any:
    """The sum over the ranks, or the mean if `average` is true; `op` replaces both. compression: the form in which f32
    and f64 travel, Compression.none if it is None."""
    op = (Average if average else 1) if op is None else op
    return as_array(_binding().allreduce(_tensor(value), name=name, op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor,
                                         **given(compression)))  # fmt: skip


def allgather(value: Any, name: Any = None) -> Any:
    """The rows of all ranks, in the order of ranks. Their number may differ between ranks. On JAX the rows go
    through rueda.numpy, because rueda.jax has to be told the numbers; the result is an array of JAX."""
    if _backend() == "jax":
        import jax.numpy as jnp

        return jnp.asarray(arrays.allgather(as_array(value), name))
    return as_array(_binding().allgather(_tensor(value), name=name))


def broadcast(value: Any, root_rank: int, name: Any = None) -> Any:
    """The root's value."""
    return as_array(_binding().broadcast(_tensor(value), root_rank, name=name))


def reducescatter(value: Any, name: Any = None, op: int = Average) -> Any:
    """This rank's rows of the reduced value."""
    return as_array(_binding().reducescatter(_tensor(value), name=name, op=op))


def broadcast_global_variables(root_rank: int) -> Any:
    """rueda.tensorflow.broadcast_global_variables(): for graphs of tf.compat.v1 only. For a model use
    BroadcastGlobalVariablesCallback."""
    import rueda.tensorflow as tensors

    return tensors.broadcast_global_variables(root_rank)


def load_model(filepath: Any, custom_optimizers: Any = None, custom_objects: Any = None, compression: Any = None,
               legacy_opts: bool = False) -> Any:
    """Loads a model, whose optimizer, with the saved state, then reduces its gradients over the ranks.

    custom_optimizers: classes of optimizers that the file names. legacy_opts: ignored.
    """
    known = {each.__name__: each for each in custom_optimizers or ()}
    model = keras.models.load_model(filepath, custom_objects={**known, **(custom_objects or {})})
    if getattr(model, "optimizer", None) is not None:
        wrap_in_place(model.optimizer, Settings("Distributed" + type(model.optimizer).__name__, compression))
    return model
