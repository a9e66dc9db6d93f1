"""Keeps the works that DistributedDataParallel hands to its reducer.

With join(divide_by_initial_world_size=False) the reducer's C++ waits in the backward pass for an all-reduce that began before the
forward pass. It keeps its own part of the work alone, and waits for ever where Python's is gone.
"""

import functools
import weakref
from typing import Any

from torch._C._distributed_c10d import Reducer

_works: Any = weakref.WeakKeyDictionary()  # the last one of each reducer


def install() -> None:
    """Makes reducers remember the Python object of the last work that they were handed."""
    original = Reducer._set_forward_pass_work_handle
    if hasattr(original, "serves_rueda"):
        return

    @functools.wraps(original)
    def set_forward_pass_work_handle(self: Any, work: Any, *arguments: Any, **named: Any) -> Any:
        _works[self] = work
        return original(self, work, *arguments, **named)

    set_forward_pass_work_handle.serves_rueda = True  # type: ignore[attr-defined]
    Reducer._set_forward_pass_work_handle = set_forward_pass_work_handle
