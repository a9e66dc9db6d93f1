"""The state of a training with tf.keras under the name that TensorFlow's binding has for it."""

from typing import Any

from rueda.keras.elastic_parts import KerasState


class TensorFlowKerasState(KerasState):
    """As said at rueda.keras.elastic_parts.KerasState. backend: ignored."""

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any):
        del backend
        super().__init__(model, optimizer, **kwargs)
