"""Elastic training with model.fit() of tf.keras, as rueda.keras.elastic describes it."""

from rueda.keras import elastic_parts
from rueda.keras.elastic_parts import KerasState
from rueda.tensorflow.elastic import run
from rueda.tensorflow.library import tf

__all__ = ["CommitStateCallback", "KerasState", "UpdateBatchStateCallback", "UpdateEpochStateCallback", "run"]

_Callback = tf.keras.callbacks.Callback


class CommitStateCallback(elastic_parts.CommitState, _Callback):
    """As said at rueda.keras.elastic_parts.CommitState."""


class UpdateBatchStateCallback(elastic_parts.UpdateBatchState, _Callback):
    """As said at rueda.keras.elastic_parts.UpdateBatchState."""


class UpdateEpochStateCallback(elastic_parts.UpdateEpochState, _Callback):
    """As said at rueda.keras.elastic_parts.UpdateEpochState."""
