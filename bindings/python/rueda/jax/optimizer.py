"""DistributedOptimizer(): an optimizer of optax that reduces the gradients first."""

from typing import Any, Callable, NamedTuple, Tuple

import jax
import jax.numpy as jnp

from rueda.arguments import whole_number
from rueda.compression import codec_of
from rueda.jax.compression import Compression
from rueda.jax.trees import allreduce_tree
from rueda.operations import Average
from rueda.process_sets import ProcessSet, global_process_set


def DistributedOptimizer(optimizer: Any, name: str = "grads", backward_passes_per_step: int = 1, *, op: int = Average,
                         process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                         postscale_factor: float = 1.0, compression: Any = Compression.none) -> Any:
    """Returns an optax.GradientTransformation that reduces gradients over all ranks, then updates as `optimizer` does.

    name: the gradients are called by it and their paths; optimizers in one program have different names.
    backward_passes_per_step: updates once in so many calls, with the mean of their gradients, and reduces only then; the
    other calls return zeros. op, process_set, the factors and compression: as for allreduce(). Raises ImportError without
    optax, and ValueError for another kind of optimizer.
    """
    try:
        import optax
    except ImportError as error:
        raise ImportError(f"DistributedOptimizer() needs optax, which cannot be imported: {error}; pip install optax") from error

    if not callable(getattr(optimizer, "init", None)) or not callable(getattr(optimizer, "update", None)):
        raise ValueError(f"a {type(optimizer).__name__} is not an optimizer of optax: it needs init() and update()")
    passes = whole_number("backward_passes_per_step", backward_passes_per_step, 1)
    codec_of(compression)
    inner = optax.with_extra_args_support(optimizer)

    def update(updates: Any, state: Any, params: Any = None, **more: Any) -> Any:
        reduced = allreduce_tree(updates, name, op, process_set=process_set, prescale_factor=prescale_factor,
                                 postscale_factor=postscale_factor, compression=compression)  # fmt: skip
        return inner.update(reduced, state, params, **more)

    if passes == 1:
        return optax.GradientTransformationExtraArgs(inner.init, update)
    return optax.GradientTransformationExtraArgs(*_every(passes, inner.init, update))


class AccumulatedState(NamedTuple):
    """The state of an optimizer that updates once in several calls."""

    calls: Any  # since the last update
    gradients: Any  # their mean so far
    inner: Any  # the state of the optimizer itself


def _every(passes: int, init: Callable[..., Any], update: Callable[..., Any]) -> Tuple[Any, Any]:
    """The two functions of an optimizer that calls `update` once in `passes` calls. (optax.MultiSteps calls it each
    time and drops what it does not need, but ranks would then reduce in every call.)"""

    def begin(params: Any) -> AccumulatedState:
        return AccumulatedState(jnp.zeros((), jnp.int32), jax.tree_util.tree_map(jnp.zeros_like, params), init(params))

    def advance(updates: Any, state: AccumulatedState, params: Any = None, **more: Any) -> Any:
        mean = jax.tree_util.tree_map(lambda before, new: before + (new - before) / (state.calls + 1).astype(before.dtype),
                                      state.gradients, updates)  # fmt: skip
        nothing = jax.tree_util.tree_map(jnp.zeros_like, updates)

        def step(_: Any) -> Any:
            changes, inner = update(mean, state.inner, params, **more)
            changes = jax.tree_util.tree_map(lambda change, like: change.astype(like.dtype), changes, nothing)
            return changes, AccumulatedState(jnp.zeros_like(state.calls), jax.tree_util.tree_map(jnp.zeros_like, mean), inner)

        def wait(_: Any) -> Any:
            return nothing, AccumulatedState(state.calls + 1, mean, state.inner)

        return jax.lax.cond(state.calls == passes - 1, step, wait, None)

    return begin, advance
