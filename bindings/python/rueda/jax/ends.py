"""Barrier and join. A program that JAX has started may still be running, so each of them waits for those first."""

from rueda import waits
from rueda.jax.bridge import drain
from rueda.process_sets import ProcessSet, global_process_set

__all__ = ["barrier", "drain", "join"]


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Blocks until the programs that this rank has started have run and all ranks of the set have called it."""
    drain()
    waits.barrier(process_set)


def join(process_set: ProcessSet = global_process_set) -> int:
    """Tells the set that this rank has no more data, once the programs that it has started have run. Blocks until all
    ranks of the set have joined, and returns the rank that joined last.

    Until then this rank takes part in the others' operations, see rueda.waits.join_async().
    """
    drain()
    return waits.join(process_set)
