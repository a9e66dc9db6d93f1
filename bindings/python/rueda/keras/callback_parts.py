"""What the callbacks do. rueda.keras.callbacks and rueda.tensorflow.keras.callbacks add Keras's own base class, which is
another one where tf.keras is not the package keras."""

from typing import Any, Optional

from rueda.keras.values import as_array, broadcast_values, means, variables_of
from rueda.session import size


class WithoutXla:
    """Turns the compilation by XLA off, which "auto" turns on with a GPU: on TensorFlow it cannot compile collectives."""

    def set_model(self, model: Any) -> None:
        """Called by Keras."""
        super().set_model(model)  # type: ignore[misc]
        on_jax = hasattr(model, "jax_state_sync")  # of Keras 3 on JAX, where XLA is the rule
        if getattr(model, "jit_compile", False) and not on_jax:
            model.jit_compile = False


class Broadcast(WithoutXla):
    """Gives all ranks the root's model and optimizer, before the first step if the optimizer has its variables by then, else
    behind it."""

    def __init__(self, root_rank: int, device: str = "", local_variables: Any = None):
        """device: ignored. local_variables: variables that each rank keeps."""
        super().__init__()
        self.root_rank, self.device = root_rank, device
        self._local = {id(variable) for variable in local_variables or ()}
        self.broadcast_done = False

    def on_train_begin(self, logs: Any = None) -> None:
        """Called by Keras."""
        if getattr(self.model.optimizer, "built", False) and self.model.built:  # type: ignore[attr-defined]
            self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Called by Keras."""
        if not self.broadcast_done:
            self._broadcast()

    def _broadcast(self) -> None:
        model = self.model  # type: ignore[attr-defined]
        variables = [*model.variables, *variables_of(model.optimizer)]
        once = {id(variable): variable for variable in variables if id(variable) not in self._local}
        broadcast_values(list(once.values()), self.root_rank)
        self.broadcast_done = True


class MetricAverage(WithoutXla):
    """Replaces the metrics at the end of an epoch by their means over the ranks, so that callbacks behind this one, such as
    checkpoints, decide alike on all ranks."""

    def __init__(self, device: str = ""):
        """device: ignored."""
        super().__init__()
        self.device = device

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras."""
        if logs:
            names = sorted(logs)
            logs.update(zip(names, means([float(as_array(logs[name])) for name in names])))


class LearningRateSchedule(WithoutXla):
    """Multiplies the initial learning rate from one epoch on to another."""

    def __init__(self, initial_lr: float, multiplier: Any, start_epoch: int = 0, end_epoch: Optional[int] = None, staircase: bool = True,
                 momentum_correction: bool = True, steps_per_epoch: Optional[int] = None):
        """multiplier: a number, or a function of the epoch, a fraction unless `staircase`. momentum_correction: scales the
        momentum with the rate for the batch in which the rate changes. Raises ValueError if initial_lr is None."""
        super().__init__()
        if initial_lr is None:
            raise ValueError("initial_lr is None; give the learning rate")
        self.initial_lr, self.start_epoch, self.end_epoch, self.staircase = initial_lr, start_epoch, end_epoch, staircase
        self.momentum_correction, self.steps_per_epoch = momentum_correction, steps_per_epoch
        if not callable(multiplier):
            self.staircase = True
        self.multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier
        self.current_epoch, self._momentum = 0, None

    def on_train_begin(self, logs: Any = None) -> None:
        """Called by Keras."""
        steps = (self.params or {}).get("steps")  # type: ignore[attr-defined]
        if not self.staircase and not self.steps_per_epoch:
            if not steps:
                raise ValueError("the number of steps in an epoch is not known; give steps_per_epoch")
            self.steps_per_epoch = steps

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras."""
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Called by Keras."""
        over = self.end_epoch is not None and self.current_epoch >= self.end_epoch
        if self.current_epoch < self.start_epoch or over or (self.staircase and batch != 0):
            return
        epoch = self.current_epoch if self.staircase else self.current_epoch + batch / float(self.steps_per_epoch or 1)
        self._set(self.initial_lr * self.multiplier(epoch))

    def _set(self, rate: float) -> None:
        optimizer = self.model.optimizer  # type: ignore[attr-defined]
        before = float(as_array(optimizer.learning_rate))
        optimizer.learning_rate = rate
        momentum = getattr(optimizer, "momentum", None)
        if self.momentum_correction and momentum is not None and before > 0 and before != rate and float(as_array(momentum)) != 0:
            self._momentum = float(as_array(momentum))
            optimizer.momentum = self._momentum * rate / before

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Called by Keras."""
        if self._momentum is not None:
            self.model.optimizer.momentum, self._momentum = self._momentum, None  # type: ignore[attr-defined]

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras."""
        if logs is not None:
            logs["lr"] = float(as_array(self.model.optimizer.learning_rate))  # type: ignore[attr-defined]


class LearningRateWarmup(LearningRateSchedule):
    """Raises the learning rate in each batch, from initial_lr / size() to initial_lr at the end of `warmup_epochs`."""

    def __init__(self, initial_lr: float, warmup_epochs: float = 5, momentum_correction: bool = True, steps_per_epoch: Optional[int] = None,
                 verbose: int = 0):
        """verbose: 1 prints the rate that was reached."""

        def multiplier(epoch: float) -> float:
            done = min(1.0, (epoch + 1.0 / float(self.steps_per_epoch or 1)) / warmup_epochs)
            return (1 + done * (size() - 1)) / size()

        super().__init__(initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)
        self.warmup_epochs, self.verbose = warmup_epochs, verbose

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras."""
        super().on_epoch_end(epoch, logs)
        if epoch == self.end_epoch - 1 and self.verbose > 0:
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {float(as_array(self.model.optimizer.learning_rate)):g}.")
