"""rueda.tensorflow.keras under the name of horovod.tensorflow.keras."""

import importlib as _importlib

from rueda.tensorflow.keras import *  # noqa: F403

for _part in ("callbacks", "elastic"):
    _importlib.import_module(f"{__name__}.{_part}")
