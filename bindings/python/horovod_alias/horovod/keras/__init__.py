"""rueda.keras under the name of horovod.keras."""

import importlib as _importlib

from rueda.keras import *  # noqa: F403

for _part in ("callbacks", "elastic"):
    _importlib.import_module(f"{__name__}.{_part}")
