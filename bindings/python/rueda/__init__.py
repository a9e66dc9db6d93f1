"""Rueda: collective communication for data-parallel training.

    import rueda.torch as hvd         # PyTorch
    import rueda.tensorflow as hvd    # TensorFlow
    import rueda.keras as hvd         # Keras on any backend
    import rueda.numpy as hvd         # NumPy

This module has the parts that depend on no framework: the session, its errors, and `run()`, which starts a function on
ranks. A name is imported when it is first used, so that `import rueda` alone is fast.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any, List

__version__ = "1.0.0"

_HOMES = {
    "rueda.session": [
        "Session", "cross_rank", "cross_size", "is_homogeneous", "is_initialized", "local_rank", "local_size", "rank",
        "shutdown", "size",
    ],
    "rueda.errors": [
        "CollectiveError", "CollectiveTimeoutError", "HorovodInternalError", "HostsUpdatedInterrupt", "MismatchError",
        "NotInitializedError", "PeerLostError", "RemovedError", "ShutDownError", "UnsupportedError",
    ],
    "rueda.process_sets": ["ProcessSet", "add_process_set", "global_process_set", "init", "remove_process_set"],
    "rueda.handles": ["Handle"],
    "rueda.launch": ["run"],
    "rueda.diagnosis": ["dump", "stats"],
    "rueda.timeline": ["start_timeline", "stop_timeline"],
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)

if TYPE_CHECKING:
    # With `as`, type checkers count a name as exported.
    from rueda.diagnosis import dump as dump
    from rueda.diagnosis import stats as stats
    from rueda.errors import *
    from rueda.handles import Handle as Handle
    from rueda.launch import run as run
    from rueda.process_sets import *
    from rueda.session import *
    from rueda.timeline import start_timeline as start_timeline
    from rueda.timeline import stop_timeline as stop_timeline

if "tensorflow" in sys.modules:
    importlib.import_module("rueda.own_libraries")


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rueda' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__))
