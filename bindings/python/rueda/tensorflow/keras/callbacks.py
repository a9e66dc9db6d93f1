"""Callbacks for model.fit(): the root's variables, mean metrics, learning rates."""

from typing import Any

from rueda.tensorflow.library import tf
from rueda.keras import callback_parts

_Callback = tf.keras.callbacks.Callback


class BroadcastGlobalVariablesCallback(callback_parts.Broadcast, _Callback):
    """As said at rueda.keras.callback_parts.Broadcast."""


class MetricAverageCallback(callback_parts.MetricAverage, _Callback):
    """As said at rueda.keras.callback_parts.MetricAverage."""


class LearningRateScheduleCallback(callback_parts.LearningRateSchedule, _Callback):
    """As said at rueda.keras.callback_parts.LearningRateSchedule."""


class LearningRateWarmupCallback(callback_parts.LearningRateWarmup, _Callback):
    """As said at rueda.keras.callback_parts.LearningRateWarmup."""


class BestModelCheckpoint(tf.keras.callbacks.ModelCheckpoint):
    """Saves the model whenever the monitored metric is better than before, to the file that the attribute `filepath` names."""

    def __init__(self, monitor: str = "val_loss", verbose: int = 0, save_weights_only: bool = False, mode: str = "auto",
                 save_freq: Any = "epoch"):
        """The arguments of Keras's ModelCheckpoint."""
        weights = save_weights_only
        super().__init__(filepath="best.weights.h5" if weights else "best.keras", monitor=monitor, verbose=verbose, save_best_only=True,
                         save_weights_only=weights, mode=mode, save_freq=save_freq)  # fmt: skip
