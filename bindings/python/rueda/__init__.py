"""Rueda: collective communication for data-parallel training.

    import rueda.torch as hvd    # PyTorch
    import rueda.numpy as hvd    # NumPy

Here are the parts that know no framework: the session, its errors, and `run()`, which starts a function on ranks. Names
are loaded when they are first asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any, List

__version__ = "1.0.0"

_PLACES = {
    "rueda.session": [
        "Session", "cross_rank", "cross_size", "is_homogeneous", "is_initialized", "local_rank", "local_size", "rank",
        "shutdown", "size",
    ],
    "rueda.errors": [
        "CollectiveError", "CollectiveTimeoutError", "HorovodInternalError", "HostsUpdatedInterrupt", "MismatchError",
        "NotInitializedError", "PeerLostError", "ShutDownError", "UnsupportedError",
    ],
    "rueda.process_sets": ["ProcessSet", "add_process_set", "global_process_set", "init", "remove_process_set"],
    "rueda.handles": ["Handle"],
    "rueda.launch": ["run"],
    "rueda.diagnosis": ["dump", "stats"],
    "rueda.timeline": ["start_timeline", "stop_timeline"],
}  # fmt: skip
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}
__all__ = sorted(_PLACE_OF)

if TYPE_CHECKING:
    # `as`: what type checkers take for ours to give on.
    from rueda.diagnosis import dump as dump
    from rueda.diagnosis import stats as stats
    from rueda.errors import *
    from rueda.handles import Handle as Handle
    from rueda.launch import run as run
    from rueda.process_sets import *
    from rueda.session import *
    from rueda.timeline import start_timeline as start_timeline
    from rueda.timeline import stop_timeline as stop_timeline


def __getattr__(name: str) -> Any:
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'rueda' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PLACE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__))
