"""Functions of all frameworks that move no tensors, and those that wait for handles."""

from typing import Any, Optional

from rueda import operations
from rueda._native import lib
from rueda.handles import Handle
from rueda.process_sets import ProcessSet, global_process_set, id_of
from rueda.session import current


def barrier_async(process_set: ProcessSet = global_process_set) -> Handle:
    """Ends once all ranks have called it and every operation agreed on before it has run. The result is None."""
    session = current()
    return Handle(session, lib.rueda_py_start_barrier(session.pointer, id_of(process_set)), None)


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Blocks until all ranks of the set have called it."""
    barrier_async(process_set).wait()


def join_async(process_set: ProcessSet = global_process_set) -> Handle:
    """Tells the set that this rank has no more data. Until all its ranks have joined, this rank takes part in their
    operations.

    It contributes zeros to a sum or an average, which still divides by all ranks, and nothing to a minimum, maximum or
    product. An operation that has no neutral contribution, such as a broadcast, raises HorovodInternalError on the
    other ranks. Until the join ends, operations of this rank in the set raise ValueError.

    The result is the rank of the job that joined last. RUEDA_TIMEOUT_SECONDS does not apply.
    """
    return operations.start_join(current(), id_of(process_set))


def join(process_set: ProcessSet = global_process_set) -> int:
    """join_async() and its result: blocks until all ranks of the set have joined, and returns the rank that joined
    last."""
    return join_async(process_set).wait()


def poll(handle: Handle) -> bool:
    """Returns whether the operation has finished, so that synchronize() does not block."""
    return _handle(handle).poll()


def synchronize(handle: Handle, timeout: Optional[float] = None) -> Any:
    """Waits until the operation has finished, and returns its result.

    timeout: in seconds, None for no limit. Raises TimeoutError if it has passed; poll(handle) is then still False, and
    the caller may wait again. Raises HorovodInternalError if the operation failed.
    """
    return _handle(handle).wait(timeout)


def _handle(handle: Any) -> Handle:
    if not isinstance(handle, Handle):
        raise ValueError(f"{handle!r:.60} is not a handle; pass what a function with _async in its name returned")
    return handle
