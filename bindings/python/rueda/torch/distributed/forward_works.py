"""Keeps the works that DistributedDataParallel passes to its reducer.

With join(divide_by_initial_world_size=False) the reducer's C++ waits in the backward pass for an all-reduce that began
before the forward pass. It keeps the C++ part of the work alive, but not the Python object. Without the Python object
its wait never ends.
"""

import functools
import weakref
from typing import Any

from torch._C._distributed_c10d import Reducer

_works: Any = weakref.WeakKeyDictionary()  # the last work of each reducer


def install() -> None:
    """Makes every reducer keep the Python object of the last work that was passed to it."""
    original = Reducer._set_forward_pass_work_handle
    if hasattr(original, "serves_rueda"):
        return

    @functools.wraps(original)
    def set_forward_pass_work_handle(self: Any, work: Any, *arguments: Any, **named: Any) -> Any:
        _works[self] = work
        return original(self, work, *arguments, **named)

    set_forward_pass_work_handle.serves_rueda = True  # type: ignore[attr-defined]
    Reducer._set_forward_pass_work_handle = set_forward_pass_work_handle
