"""Operations on all arrays of a pytree, named by their paths in it."""

from typing import Any, Callable, List, Sequence

import jax

from rueda.jax import calls, versions
from rueda.jax.calls import ALLREDUCE
from rueda.jax.compression import Compression
from rueda.jax.reductions import allreduce_group, reduction
from rueda.jax.rows import broadcast_group
from rueda.operations import Average
from rueda.process_sets import ProcessSet, global_process_set


def _over_leaves(tree: Any, name: str, group: Callable[[Sequence[Any], List[str]], List[Any]]) -> Any:
    """Applies `group` to the leaves: to each by itself if XLA has futures, so that an operation begins when its array is
    ready. Otherwise all are one call: a call blocks a thread of XLA's, and calls in different orders would wait for
    each other."""
    paths, shape = jax.tree_util.tree_flatten_with_path(tree)
    names = [f"{name}{jax.tree_util.keystr(path)}" for path, _ in paths]
    leaves = [calls.array_of(leaf) for _, leaf in paths]
    if versions.HAS_FUTURES and calls.is_traced(leaves):
        results = [group([leaf], [name])[0] for leaf, name in zip(leaves, names)]
    else:
        results = group(leaves, names)
    return jax.tree_util.tree_unflatten(shape, results)


def allreduce_tree(tree: Any, name: str = "grads", op: int = Average, *, process_set: ProcessSet = global_process_set,
                   prescale_factor: float = 1.0, postscale_factor: float = 1.0, compression: Any = Compression.none) -> Any:
    """allreduce() of every array in a pytree. An array is called by the name and its path: "grads['dense']['kernel']".

    All ranks give trees of the same structure. A program that reduces two trees names them differently.
    """
    kind = reduction(ALLREDUCE, op, process_set, prescale_factor, postscale_factor)
    return _over_leaves(tree, name, lambda values, names: allreduce_group(kind, values, names, compression))


def broadcast_tree(tree: Any, root_rank: int = 0, *, name: str = "parameters",
                   process_set: ProcessSet = global_process_set) -> Any:
    """broadcast() of every array in a pytree: returns the root's tree on every rank."""
    return _over_leaves(tree, name, lambda values, names: broadcast_group(values, root_rank, names, process_set))
