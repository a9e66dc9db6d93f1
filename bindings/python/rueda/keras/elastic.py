"""Elastic training with model.fit(): a model and an optimizer that are committed, restored, and equal on all ranks.

    state = hvd.elastic.KerasState(model, epoch=0, batch=0)

    @hvd.elastic.run
    def train(state):
        model.fit(..., epochs=90 - state.epoch, callbacks=[hvd.elastic.UpdateEpochStateCallback(state),
                                                           hvd.elastic.CommitStateCallback(state)])

    train(state)
"""

from typing import Any, Callable

import keras
from rueda.elastic.variables import run_framework
from rueda.keras import elastic_parts
from rueda.keras.elastic_parts import KerasState

__all__ = ["CommitStateCallback", "KerasState", "UpdateBatchStateCallback", "UpdateEpochStateCallback", "run"]

_Callback = keras.callbacks.Callback


def _is_lost(error: Exception) -> bool:
    """Returns whether it is TensorFlow's error for a job that is broken. The other backends raise Rueda's own, or end the
    plan before."""
    return type(error).__module__.startswith("tensorflow") and type(error).__name__ in ("AbortedError", "UnknownError", "DeadlineExceededError")


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """rueda.elastic.run(), which also takes the backend's errors of a job that is broken for HorovodInternalError."""
    return run_framework(func, _is_lost)


class CommitStateCallback(elastic_parts.CommitState, _Callback):
    """As said at rueda.keras.elastic_parts.CommitState."""


class UpdateBatchStateCallback(elastic_parts.UpdateBatchState, _Callback):
    """As said at rueda.keras.elastic_parts.UpdateBatchState."""


class UpdateEpochStateCallback(elastic_parts.UpdateEpochState, _Callback):
    """As said at rueda.keras.elastic_parts.UpdateEpochState."""
