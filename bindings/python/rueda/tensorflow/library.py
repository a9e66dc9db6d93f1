"""TensorFlow, and the ops that librueda_tensorflow.so registers in it. Every other module of the package comes by here, so
that a TensorFlow that is missing or too old is told in one sentence."""

import ctypes
import os
import re
from typing import Any

from rueda import own_libraries, session
from rueda._native import ffi
from rueda.watchers import Watcher

OLDEST = (2, 13)
_PATH = os.path.join(own_libraries.FOLDER, "librueda_tensorflow.so")

try:
    import tensorflow as tf
except ImportError as error:
    raise ImportError(f"rueda.tensorflow needs TensorFlow 2.13 or newer, which cannot be imported here: {error}; "
                      "pip install tensorflow") from error  # fmt: skip


def check_version(version: str) -> None:
    """Raises ImportError if a version of TensorFlow is older than the oldest that Rueda supports."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or tuple(map(int, numbers.groups())) < OLDEST:
        raise ImportError(f"rueda.tensorflow needs TensorFlow 2.13 or newer, and {version} is installed: pip install --upgrade tensorflow")


class _Sessions(Watcher):
    """Tells the library of each session that begins. A session that has ended stays a valid pointer."""

    def __init__(self, native: Any):
        self._native = native

    def begun(self, session: Any) -> None:
        self._native.rueda_tensorflow_use(int(ffi.cast("uintptr_t", session.local)))

    def waiting(self, session: Any, why: str) -> None:
        self._native.rueda_tensorflow_refuse(why.encode())


def _load() -> Any:
    library = ctypes.CDLL(_PATH)
    library.rueda_tensorflow_failure.restype = ctypes.c_char_p
    failure = library.rueda_tensorflow_failure().decode("utf-8", "replace")
    if failure:
        raise ImportError(f"rueda.tensorflow cannot use TensorFlow {tf.__version__}: {failure}")
    library.rueda_tensorflow_use.argtypes = [ctypes.c_void_p]
    library.rueda_tensorflow_refuse.argtypes = [ctypes.c_char_p]
    session.watch(_Sessions(library))
    return library


check_version(tf.__version__)
ops = tf.load_op_library(_PATH)
library = _load()
