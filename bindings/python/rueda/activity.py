"""Tells the library what the main thread is doing, for the flight record and for the stall reports of all ranks.

The library asks on a thread of its own, which needs the GIL. The main thread may be stuck in a call that released the
GIL, or run Python code, which releases it every few milliseconds. If a foreign function keeps the GIL, the report says
that there is no answer.
"""

import os
import sys
import sysconfig
import threading
from types import FrameType
from typing import Optional

from rueda._native import ffi, lib

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARIES = tuple({path + os.sep for path in (sysconfig.get_paths()[kind] for kind in ("stdlib", "purelib", "platlib"))})


def _line_of(frame: FrameType) -> str:
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}"


def _is_users(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return not name.startswith("<frozen") and not os.path.abspath(name).startswith((_OWN, *_LIBRARIES))


def describe() -> str:
    """The line of the user's code that the main thread runs, and the function that this line is in. "" before it runs
    any code."""
    top = sys._current_frames().get(threading.main_thread().ident or 0)
    frame: Optional[FrameType] = top
    while frame is not None and not _is_users(frame):
        frame = frame.f_back
    if top is None:
        return ""
    if frame is None or frame is top:
        return _line_of(top)
    return f"{_line_of(frame)}, which is in {_line_of(top)}"


@ffi.def_extern()
def rueda_py_activity(_context, text, capacity):
    """Writes describe() to `text`, cut to `capacity` bytes. The library calls this on a thread of its own."""
    said = describe().encode("utf-8", "replace")[: capacity - 1] + b"\0"
    ffi.memmove(text, said, len(said))


def watch(session: "ffi.CData") -> None:
    """Lets the library ask for describe() until the session ends."""
    lib.rueda_set_activity_callback(session, lib.rueda_py_activity, ffi.NULL)


def unwatch(session: "ffi.CData") -> None:
    """Ends that. A call that is under way may still be running; rueda_shutdown() waits for it."""
    lib.rueda_set_activity_callback(session, ffi.NULL, ffi.NULL)
