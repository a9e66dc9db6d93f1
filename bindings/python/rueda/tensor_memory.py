"""Memory for tensors that the other ranks of the host map: an all-reduce of such tensors copies nothing.

A block lives as long as the object that `allocate()` returns, or anything that views it. A finalizer frees it, at any
time and on any thread, after shutdown() too.
"""

import ctypes
import itertools
import threading
import weakref
from typing import Any, Dict, Iterable, List, Optional

from rueda import errors
from rueda._native import ffi, lib
from rueda.session import current


def allocate(size: int) -> Any:
    """Returns a writable buffer of `size` bytes, zeros, at the beginning of a page; of one byte if size is 0.

    It is private memory if no other rank is on this host or shared memory is refused. Raises HorovodInternalError if
    the tensors of this rank would take more than RUEDA_SHARED_TENSOR_BYTES.
    """
    return _freed_at_its_end(_take(size), size)


def allocate_shared(size: int) -> Optional[Any]:
    """As allocate(); None if it would be private memory."""
    memory = _take(size)
    if not memory.shared:
        lib.rueda_memory_free(memory.data)
        return None
    return _freed_at_its_end(memory, size)


def _freed_at_its_end(memory: Any, size: int) -> Any:
    # The finalizer runs in a forked child too, where freeing leaves the parent's memory alone.
    return _view(memory.data, size, lib.rueda_memory_free, memory.data)


def _take(size: int) -> Any:
    """A block as rueda_memory_allocate() describes it. If there is no room, pools give up the blocks that they keep."""
    try:
        return _take_once(size)
    except errors.CollectiveError:
        if not any([pool.drop() for pool in _pools]):
            raise
    return _take_once(size)


def _take_once(size: int) -> Any:
    memory = ffi.new("rueda_memory*")
    memory.struct_size = ffi.sizeof("rueda_memory")
    errors.check(lib.rueda_memory_allocate(current().local, size, memory))
    return memory


def _view(memory: Any, size: int, end: Any, *arguments: Any) -> Any:
    """A buffer at this address; end(*arguments) is called when nothing uses it any more."""
    block = (ctypes.c_char * max(size, 1)).from_address(int(ffi.cast("uintptr_t", memory)))
    weakref.finalize(block, end, *arguments).atexit = False
    return block


_pools: "List[Pool]" = []


class Pool:
    """Blocks for buffers that come and go in every step: taking pages and giving them back costs more than the copies
    that they save. Blocks that are free are kept, as many bytes as were in use at one time, and belong to one session.
    Contents are whatever the last user left. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may run in a thread that is in here
        self._session: Any = None
        self._free: Dict[int, List[Any]] = {}  # by size
        self._used = self._most_used = self._kept = 0
        _pools.append(self)

    def allocate(self, size: int) -> Any:
        """As allocate(), but for the contents."""
        with self._lock:
            session = current()
            if session is not self._session:
                self.drop()
                self._session, self._used, self._most_used = session, 0, 0
            try:
                memory = self._free[size].pop()
                self._kept -= size
            except (KeyError, IndexError):
                memory = _take(size).data
            self._used += size
            self._most_used = max(self._most_used, self._used)
        return _view(memory, size, self._back, session, memory, size)

    def _back(self, session: Any, memory: Any, size: int) -> None:
        with self._lock:
            if session is self._session:
                self._used -= size
                if self._used + self._kept + size > self._most_used:
                    self.drop()  # what is kept has sizes that the program asks for no more
                self._free.setdefault(size, []).append(memory)
                self._kept += size
                return
        lib.rueda_memory_free(memory)

    def drop(self) -> bool:
        """Gives up the blocks that are free. Returns whether there were any."""
        empty: Dict[int, List[Any]] = {}
        with self._lock:  # a finalizer in the middle of this method may call it again, and finds nothing that is dropped twice
            dropped, self._free, self._kept = self._free, empty, 0
        for memory in itertools.chain(*dropped.values()):
            lib.rueda_memory_free(memory)
        return any(dropped.values())


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
