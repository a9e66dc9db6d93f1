"""What this process is doing, for the flight record and for stall reports of any rank.

The library asks on a thread of its own while the main thread may be stuck: in a call that released the GIL, or in Python code,
which gives it up every few milliseconds. Only a foreign function that keeps the GIL is silent; the report says so.
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


def _place(frame: FrameType) -> str:
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}"


def _is_users(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return not name.startswith("<frozen") and not os.path.abspath(name).startswith((_OWN, *_LIBRARIES))


def describe() -> str:
    """Where the main thread stands: the line of the user's code, and what that line is in. "" before it runs anything."""
    top = sys._current_frames().get(threading.main_thread().ident or 0)
    frame: Optional[FrameType] = top
    while frame is not None and not _is_users(frame):
        frame = frame.f_back
    if top is None:
        return ""
    if frame is None or frame is top:
        return _place(top)
    return f"{_place(frame)}, which is in {_place(top)}"


@ffi.def_extern()
def rueda_py_activity(_context, text, capacity):
    said = describe().encode("utf-8", "replace")[: capacity - 1] + b"\0"
    ffi.memmove(text, said, len(said))


def watch(session: "ffi.CData") -> None:
    """Lets the library ask, until the session ends."""
    lib.rueda_set_activity_callback(session, lib.rueda_py_activity, ffi.NULL)


def unwatch(session: "ffi.CData") -> None:
    """The library asks no more."""
    lib.rueda_set_activity_callback(session, ffi.NULL, ffi.NULL)
