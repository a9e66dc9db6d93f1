"""Rueda under the name that scripts written for Horovod import. See horovod.torch."""

import importlib.metadata as _metadata

from rueda import __version__  # noqa: F401

for _found in _metadata.distributions(name="horovod"):
    raise ImportError(f"Horovod {_found.version} and rueda-horovod-alias are both installed; remove one of them")

from horovod.runner import run  # noqa: E402, F401
