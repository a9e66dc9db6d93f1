"""Counters of this rank, and its flight record."""

import json
import os
from typing import Any, Dict, Optional

from rueda import errors, session
from rueda._native import ffi, lib


def stats() -> Dict[str, Any]:
    """Counts what this rank has done since init(): tensors, bytes, batches, times, cache hits, algorithms, memory held.

    docs/guide/diagnosis.md lists the fields and their units. The call takes microseconds, never blocks, and may come
    from any thread. Raises NotInitializedError before init().
    """
    pointer = session.current().local
    size = ffi.new("size_t*")
    errors.check(lib.rueda_stats(pointer, ffi.NULL, 0, size))
    while True:
        capacity = size[0] + 256  # the text may grow before the next call
        text = ffi.new("char[]", capacity)
        errors.check(lib.rueda_stats(pointer, text, capacity, size))
        if size[0] <= capacity:
            return json.loads(ffi.string(text))


def dump(path: Optional[str] = None) -> None:
    """Writes the flight record: the last 1024 tensors of this rank, with the time of each stage that they reached.

    Any thread may call it, even while other threads hang. path: of a JSON file; "{rank}" in it is replaced by the rank,
    and without that ".<rank>" is appended. None writes a few lines to the log instead. Raises NotInitializedError
    before init(), and HorovodInternalError if the file cannot be written.
    """
    errors.check(lib.rueda_dump(session.current().local, ffi.NULL if path is None else os.fsencode(path)))
