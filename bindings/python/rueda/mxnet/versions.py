"""Imports MXNet 1.9.1, also beside a NumPy that is younger than it.

MXNet is retired, and uses names such as numpy.bool, which NumPy 1.24 has dropped. They are put back before MXNet is
imported, so a program imports rueda.mxnet first.
"""

import builtins
import warnings

import numpy

_DROPPED = ("bool", "int", "float", "object", "complex", "str")

if int(numpy.__version__.split(".")[0]) >= 2:
    raise ImportError(f"NumPy {numpy.__version__} is installed; MXNet needs NumPy 1.x: pip install 'numpy<2'")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for _name in _DROPPED:
        if _name not in numpy.__dict__:
            setattr(numpy, _name, getattr(builtins, _name))
try:
    import mxnet
except ImportError as error:
    raise ImportError(f"rueda.mxnet needs MXNet 1.9.1, which cannot be imported: {error}; pip install mxnet==1.9.1") from error
if tuple(int(part) for part in mxnet.__version__.split(".")[:2]) < (1, 9):
    raise ImportError(f"MXNet {mxnet.__version__} is installed; rueda.mxnet needs 1.9.1: pip install mxnet==1.9.1")
