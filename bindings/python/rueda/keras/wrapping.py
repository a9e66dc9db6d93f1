"""Makes an optimizer of Keras reduce its gradients over the ranks, by a subclass of its class made on the spot.

The subclass has the name and the module of the class, so that a saved model names the class that it derives from and loads
without Rueda. It overrides the one method through which every gradient goes to its variable: apply() in Keras 3, which
model.fit and the user reach on each backend, and apply_gradients() in Keras 2.
"""

from typing import Any, Dict, List

from rueda.keras import loss_scale
from rueda.keras.settings import Settings, agreement_for, backend_of, reducer_for


def wrap(optimizer: Any, settings: Settings) -> Any:
    """A new optimizer with the configuration of the given one. Raises ValueError if that is not an optimizer of Keras, or
    reduces its gradients already."""
    return _subclass(optimizer, settings).from_config(optimizer.get_config())


def wrap_in_place(optimizer: Any, settings: Settings) -> Any:
    """Makes the optimizer itself reduce its gradients; it keeps its state."""
    optimizer.__class__ = _subclass(optimizer, settings)
    return optimizer


def _subclass(optimizer: Any, settings: Settings) -> type:
    base = type(optimizer)
    if isinstance(optimizer, type):
        raise ValueError(f"DistributedOptimizer({optimizer.__name__}): this is a class; give an optimizer: {optimizer.__name__}(...)")
    if not (hasattr(optimizer, "get_config") and hasattr(optimizer, "apply_gradients")):
        raise ValueError(f"DistributedOptimizer({base.__name__}): give an optimizer of Keras or of tf.compat.v1.train")
    if hasattr(optimizer, "_rueda_reducer"):
        raise ValueError(f"the optimizer {base.__name__} is distributed already")
    passes = settings.backward_passes_per_step
    if isinstance(passes, bool) or passes < 1:
        raise ValueError(f"backward_passes_per_step={passes}: give a number of at least 1")
    backend = backend_of(optimizer)
    reducer = reducer_for(backend, settings)
    members: Dict[str, Any] = {"__module__": base.__module__, "__doc__": base.__doc__, "__qualname__": base.__qualname__,
                               "_rueda_reducer": reducer, "register_local_var": lambda self, var: reducer.register_local(var)}  # fmt: skip
    steps = _Accumulated(base, settings, reducer, backend) if passes > 1 else _Plain(base, reducer)
    if hasattr(optimizer, "apply"):
        loss_scale.install()
        agreed = agreement_for(backend, settings)
        members.update(apply=_apply(steps), _rueda_agreed=lambda self, flag: agreed(flag))
    else:
        members["apply_gradients"] = _apply_gradients(steps)
    return type(base.__name__, (base,), members)


def _apply(steps: Any) -> Any:
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        variables = list(self._trainable_variables if trainable_variables is None else trainable_variables)
        return steps.run(self, list(grads), variables, lambda base, reduced: base.apply(self, reduced, trainable_variables))

    return apply


def _apply_gradients(steps: Any) -> Any:
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        variables = [variable for _, variable in pairs]
        return steps.run(self, [gradient for gradient, _ in pairs], variables,
                         lambda base, reduced: base.apply_gradients(self, list(zip(reduced, variables)), *args, **kwargs))  # fmt: skip

    return apply_gradients


class _Plain:
    """A step for every pass."""

    def __init__(self, base: type, reducer: Any):
        self._base, self._reducer = base, reducer

    def run(self, optimizer: Any, gradients: List[Any], variables: List[Any], step: Any) -> Any:
        """Reduces, then steps."""
        return step(self._base, self._reducer.reduce(gradients, variables))


class _Accumulated:
    """A step for every few passes. Keras's own accumulation comes behind the reduction, which would reduce every pass."""

    def __init__(self, base: type, settings: Settings, reducer: Any, backend: str):
        if backend == "jax":
            raise NotImplementedError("backward_passes_per_step needs state that JAX's compiled step does not carry; use "
                                      "gradient_accumulation_steps of Keras's optimizer")  # fmt: skip
        self._base, self._settings, self._reducer = base, settings, reducer
        self._accumulator: Any = None
        self._sums: List[Any] = []
        self._count = 0
        self._on_torch = backend == "torch"

    def run(self, optimizer: Any, gradients: List[Any], variables: List[Any], step: Any) -> Any:
        """Adds; reduces and steps if this was the last pass."""
        return (self._run_torch if self._on_torch else self._run_tensorflow)(optimizer, gradients, variables, step)

    def _run_torch(self, optimizer: Any, gradients: List[Any], variables: List[Any], step: Any) -> Any:
        passes = self._settings.backward_passes_per_step
        self._sums = [new if old is None else old if new is None else old + new
                      for old, new in zip(self._sums or [None] * len(gradients), gradients)]  # fmt: skip
        self._count += 1
        if self._count % passes:
            return None
        sums, self._sums = self._sums, []
        if self._settings.average_aggregated_gradients:
            sums = [None if each is None else each / passes for each in sums]
        return step(self._base, self._reducer.reduce(sums, variables))

    def _run_tensorflow(self, optimizer: Any, gradients: List[Any], variables: List[Any], step: Any) -> Any:
        from rueda.tensorflow.accumulation import Accumulator

        if self._accumulator is None:
            self._accumulator = Accumulator(self._settings.backward_passes_per_step, self._settings.average_aggregated_gradients,
                                            self._reducer.reduce)  # fmt: skip
        _build(optimizer, variables)  # not inside of the condition, where no variable can be made
        reduced = self._accumulator.add(gradients, variables)
        return self._accumulator.when_full(lambda: step(self._base, reduced))


def _build(optimizer: Any, variables: List[Any]) -> None:
    import tensorflow as tf

    with tf.init_scope():
        if hasattr(optimizer, "build"):
            if not getattr(optimizer, "built", getattr(optimizer, "_built", False)):
                optimizer.build(variables)
        else:
            optimizer._create_all_weights(variables)
