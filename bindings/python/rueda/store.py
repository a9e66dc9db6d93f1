"""Passes a key-value store in Python to the library, as the store through which ranks meet."""

import sys
import traceback
from typing import Any, Optional, Protocol

from rueda._native import ffi, lib


class Store(Protocol):
    """The methods of a store. The library calls them on the thread that makes the session, one at a time."""

    def set(self, key: str, value: bytes) -> None:
        """Sets the value of a key, which may have one already."""

    def get(self, key: str, timeout: float) -> Optional[bytes]:
        """Waits at most `timeout` seconds for a key's value. Returns None if it has none by then."""

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter, which begins at 0, and returns its new value."""

    def remove(self, key: str) -> None:
        """Removes a key and its value, or sets an empty value if the store cannot remove keys."""


class SessionOptions:
    """rueda_init_options for a rank that meets the others through `store`. Must live until the session is made.

    job_key: at least 16 bytes that only the job's ranks know. None takes them from RUEDA_JOB_KEY_FILE or, under
    torchrun on one host, from the user's own key file. timeout: seconds to meet.
    """

    def __init__(self, rank: int, size: int, store: Store, job_key: Optional[bytes], timeout: float):
        self._context = ffi.new_handle(store)
        self._table = ffi.new("rueda_store*", {
            "struct_size": ffi.sizeof("rueda_store"), "context": self._context, "set": lib.rueda_py_store_set,
            "get": lib.rueda_py_store_get, "add": lib.rueda_py_store_add,
            "remove": lib.rueda_py_store_remove})  # fmt: skip
        self._key = ffi.NULL if job_key is None else ffi.new("char[]", job_key)
        self.pointer = ffi.new("rueda_init_options*", {
            "struct_size": ffi.sizeof("rueda_init_options"), "has_rank": 1, "rank": rank, "size": size,
            "store": self._table, "job_key": self._key, "job_key_bytes": len(job_key or b""), "timeout_seconds": timeout})  # fmt: skip


def _failed(kind: Any, error: Any, trace: Any) -> None:
    print("rueda: the store through which ranks meet failed:", file=sys.stderr)
    traceback.print_exception(kind, error, trace)


@ffi.def_extern(error=lib.RUEDA_SYSTEM, onerror=_failed)
def rueda_py_store_set(context: Any, key: Any, value: Any, size: int) -> int:
    """Store.set() for the library. An exception in it prints a traceback and returns RUEDA_SYSTEM, as in the next three.
    """
    ffi.from_handle(context).set(ffi.string(key).decode(), bytes(ffi.buffer(value, size)))
    return lib.RUEDA_OK


@ffi.def_extern(error=lib.RUEDA_SYSTEM, onerror=_failed)
def rueda_py_store_get(context: Any, key: Any, buffer: Any, capacity: int, size: Any, timeout: float) -> int:
    """Store.get() for the library: copies at most `capacity` bytes, and sets `size` to the bytes of the whole value."""
    value = ffi.from_handle(context).get(ffi.string(key).decode(), timeout)
    if value is None:
        return lib.RUEDA_TIMEOUT
    size[0] = len(value)
    ffi.memmove(buffer, value, min(capacity, len(value)))
    return lib.RUEDA_OK


@ffi.def_extern(error=lib.RUEDA_SYSTEM, onerror=_failed)
def rueda_py_store_add(context: Any, key: Any, amount: int, total: Any) -> int:
    """Store.add() for the library."""
    total[0] = ffi.from_handle(context).add(ffi.string(key).decode(), amount)
    return lib.RUEDA_OK


@ffi.def_extern(error=lib.RUEDA_SYSTEM, onerror=_failed)
def rueda_py_store_remove(context: Any, key: Any) -> int:
    """Store.remove() for the library."""
    ffi.from_handle(context).remove(ffi.string(key).decode())
    return lib.RUEDA_OK
