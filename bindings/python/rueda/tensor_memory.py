"""Memory for tensors that the other ranks of the host map: an all-reduce of such tensors copies nothing.

A block lives as long as the object that `allocate()` returns, or anything that views it. A finalizer frees it, at any
time and on any thread, after shutdown() too.
"""

import ctypes
import threading
import weakref
from typing import Any, Dict, Iterable, List

from rueda import errors
from rueda._native import ffi, lib
from rueda.session import current


def allocate(size: int) -> Any:
    """Returns a writable buffer of `size` bytes, zeros, at the beginning of a page; of one byte if size is 0.

    It is private memory if no other rank is on this host or shared memory is refused. Raises HorovodInternalError if
    the tensors of this rank would take more than RUEDA_SHARED_TENSOR_BYTES.
    """
    memory = _take(size)
    # The finalizer runs in a forked child too, where freeing leaves the parent's memory alone.
    return _view(memory, size, lib.rueda_memory_free, memory)


def _take(size: int) -> Any:
    memory = ffi.new("rueda_memory*")
    memory.struct_size = ffi.sizeof("rueda_memory")
    errors.check(lib.rueda_memory_allocate(current().local, size, memory))
    return memory.data


def _view(memory: Any, size: int, end: Any, *arguments: Any) -> Any:
    """A buffer at this address; end(*arguments) is called when nothing uses it any more."""
    block = (ctypes.c_char * max(size, 1)).from_address(int(ffi.cast("uintptr_t", memory)))
    weakref.finalize(block, end, *arguments).atexit = False
    return block


class Pool:
    """Blocks for buffers that come and go in every step: taking pages and giving them back costs more than the copies
    that they save. Blocks that are free are kept, as many bytes as were in use at one time, and belong to one session.
    Contents are whatever the last user left. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may run in a thread that is in here
        self._session: Any = None
        self._free: Dict[int, List[Any]] = {}  # by size
        self._used = self._most_used = self._kept = 0

    def allocate(self, size: int) -> Any:
        """As allocate(), but for the contents."""
        with self._lock:
            session = current()
            if session is not self._session:
                self._drop_all()
                self._session, self._used, self._most_used = session, 0, 0
            ready = self._free.get(size)
            if ready:
                memory = ready.pop()
                self._kept -= size
            else:
                if self._used + self._kept + size > self._most_used:
                    self._drop_all()
                memory = _take(size)
            self._used += size
            self._most_used = max(self._most_used, self._used)
        return _view(memory, size, self._back, session, memory, size)

    def _back(self, session: Any, memory: Any, size: int) -> None:
        with self._lock:
            if session is self._session:
                self._used -= size
                if self._used + self._kept + size > self._most_used:
                    self._drop_all()  # what is kept has sizes that the program asks for no more
                self._free.setdefault(size, []).append(memory)
                self._kept += size
                return
        lib.rueda_memory_free(memory)

    def _drop_all(self) -> None:
        for memories in self._free.values():
            for memory in memories:
                lib.rueda_memory_free(memory)
        self._free, self._kept = {}, 0


def extents(size: Any, what: str) -> Iterable[int]:
    """The dimensions that a call gives as one sequence or one by one. Raises ValueError if one is not a dimension."""
    given = size[0] if len(size) == 1 and not hasattr(size[0], "__index__") else size  # of `empty(3)` and `empty((2, 3))`
    try:
        shape = tuple(dimension.__index__() for dimension in given)
    except (AttributeError, TypeError):
        raise ValueError(f"{what}: {given!r} is not a shape; give whole numbers, or one sequence of them") from None
    if any(dimension < 0 for dimension in shape):
        raise ValueError(f"{what}: {list(shape)} has a negative dimension")
    return shape
