"""Elastic training with TensorFlow: variables that are committed, restored, and equal on all ranks.

    state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0)

    @hvd.elastic.run
    def train(state):
        ...
        state.commit()

    train(state)
"""

from typing import Any, Callable, List

import numpy

from rueda.elastic.variables import VariablesState, run_framework
from rueda.tensorflow.library import tf

__all__ = ["TensorFlowKerasState", "TensorFlowState", "run"]

_LOST = (tf.errors.AbortedError, tf.errors.UnknownError, tf.errors.DeadlineExceededError)


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """rueda.elastic.run(), which also takes TensorFlow's AbortedError, UnknownError and DeadlineExceededError for
    HorovodInternalError."""
    return run_framework(func, lambda error: isinstance(error, _LOST))


class TensorFlowState(VariablesState):
    """Variables of TensorFlow and plain objects, each keyword an attribute.

    variables: by default all global variables of the graph of tf.compat.v1. session: of that graph; by default the
    default one; not used eagerly. Saves at construction.
    """

    def __init__(self, variables: Any = None, session: Any = None, **kwargs: Any):
        self.variables = list(tf.compat.v1.global_variables() if variables is None else variables)
        self.session = None if tf.executing_eagerly() else session or tf.compat.v1.get_default_session()
        super().__init__(**kwargs)

    def read(self) -> List[numpy.ndarray]:
        """The present values of the variables."""
        if self.session is not None:
            return [numpy.asarray(value) for value in self.session.run(self.variables)]
        return [numpy.asarray(variable) for variable in self.variables]

    def _variable_names(self) -> List[str]:
        return [variable.name for variable in self.variables]

    def write(self, values: List[numpy.ndarray]) -> None:
        """Sets the variables."""
        for variable, value in zip(self.variables, values):
            if self.session is not None:
                variable.load(value, self.session)
            else:
                variable.assign(value)


def __getattr__(name: str) -> Any:
    if name != "TensorFlowKerasState":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rueda.tensorflow.keras.state import TensorFlowKerasState  # Keras is imported by programs that need it

    return TensorFlowKerasState
