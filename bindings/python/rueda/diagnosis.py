"""What this rank has done, and what it has in flight."""

import json
import os
from typing import Any, Dict, Optional

from rueda import errors, session
from rueda._native import ffi, lib


def stats() -> Dict[str, Any]:
    """What this rank has done since init(): tensors, bytes, batches, times, cache hits, algorithms, memory held.

    docs/guide/diagnosis.md lists the fields. Cheap; counts what has happened by now. NotInitializedError: before init().
    """
    pointer = session.current().pointer
    size = ffi.new("size_t*")
    errors.check(lib.rueda_stats(pointer, ffi.NULL, 0, size))
    while True:
        capacity = size[0] + 256  # it may grow meanwhile
        text = ffi.new("char[]", capacity)
        errors.check(lib.rueda_stats(pointer, text, capacity, size))
        if size[0] <= capacity:
            return json.loads(ffi.string(text))


def dump(path: Optional[str] = None) -> None:
    """The flight record: the last 1024 tensors of this rank, with how far each has come and when, also while other threads
    hang.

    path: the file for it, as JSON; every {rank} in it is replaced, else ".<rank>" is put behind it. None: a few lines to the
    log. NotInitializedError: before init(). HorovodInternalError: the file cannot be written.
    """
    errors.check(lib.rueda_dump(session.current().pointer, ffi.NULL if path is None else os.fsencode(path)))
