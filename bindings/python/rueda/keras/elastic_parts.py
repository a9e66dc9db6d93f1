"""What the elastic states and callbacks of Keras do. rueda.keras.elastic and rueda.tensorflow.keras.elastic add Keras's own
base class, which is another one where tf.keras is not the package keras."""

from typing import Any, List

import numpy

from rueda.elastic.variables import VariablesState
from rueda.keras.values import as_array, variables_of


class KerasState(VariablesState):
    """A built model, its optimizer, and plain objects, each keyword an attribute.

    optimizer: that of the model if it is None. Its variables are made now, so that all ranks have the same ones. Saves at
    construction, so restore() before the first commit gives the initial state. Raises ValueError if the model is not
    built.
    """

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any):
        if not model.built:
            raise ValueError("the model has no variables yet; build it before its state is made, as with model.build(input_shape)")
        self.model = model
        self.optimizer = getattr(model, "optimizer", None) if optimizer is None else optimizer
        if self.optimizer is not None and hasattr(self.optimizer, "build") and not getattr(self.optimizer, "built", False):
            self.optimizer.build(model.trainable_variables)
        super().__init__(**kwargs)

    def _variables(self) -> List[Any]:
        every = [*self.model.variables, *(variables_of(self.optimizer) if self.optimizer is not None else ())]
        return list({id(variable): variable for variable in every}.values())

    def _fill(self) -> None:
        """Gives the variables their present values: within fit() on JAX they are empty."""
        if hasattr(self.model, "jax_state_sync"):
            self.model.jax_state_sync()

    def read(self) -> List[numpy.ndarray]:
        """The present values of the model's variables, then those of the optimizer."""
        self._fill()
        return [as_array(variable) for variable in self._variables()]

    def _variable_names(self) -> List[str]:
        return [getattr(variable, "path", variable.name) for variable in self._variables()]  # Keras 2 has no paths

    def write(self, values: List[numpy.ndarray]) -> None:
        """Sets them."""
        self._fill()  # or fit() would overwrite what is set
        for variable, value in zip(self._variables(), values):
            variable.assign(value)


class CommitState:
    """Commits the state at the end of every n-th batch, counted from the beginning of fit(), and of each epoch."""

    def __init__(self, state: Any, batches_per_commit: int = 1):
        super().__init__()
        self.state, self.batches_per_commit = state, batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Any = None) -> None:
        """Called by Keras."""
        self.batches_remaining = self.batches_per_commit

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Called by Keras."""
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.batches_remaining = self.batches_per_commit
            self.state.commit()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras."""
        self.state.commit()


class UpdateBatchState:
    """Keeps the number of the batch in state.batch. Put it before CommitStateCallback. In an epoch that goes on from a batch
    params["steps"] is that much less, if Keras knows its number of steps. fit() does not read it, and runs the whole epoch."""

    def __init__(self, state: Any):
        super().__init__()
        self.state, self.steps_per_epoch = state, None

    def on_train_begin(self, logs: Any = None) -> None:
        """Called by Keras."""
        self.steps_per_epoch = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras."""
        if self.params.get("steps"):  # type: ignore[attr-defined]
            if self.steps_per_epoch is None:
                self.steps_per_epoch = self.params.get("steps")  # type: ignore[attr-defined]
            self.params["steps"] = self.steps_per_epoch - self.state.batch  # type: ignore[attr-defined]

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Called by Keras."""
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras."""
        self.state.batch = 0


class UpdateEpochState:
    """Keeps in state.epoch how many epochs the training has had, whichever fit() they were in. Put it before
    CommitStateCallback."""

    def __init__(self, state: Any):
        super().__init__()
        self.state, self.initial_epoch = state, state.epoch

    def on_train_begin(self, logs: Any = None) -> None:
        """Called by Keras."""
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras."""
        self.state.epoch = self.initial_epoch + epoch + 1
