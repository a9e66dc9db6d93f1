"""The launcher under its name in Horovod before 0.20: `python -m horovod.run -np 4 ...` is horovodrun.

In later versions horovod.run is a function. An import of this module replaces that function, so the module can be
called, too.
"""

import sys
import types

from horovod.runner import run
from horovod.runner.launch import run_commandline


class _Callable(types.ModuleType):
    __call__ = staticmethod(run)


sys.modules[__name__].__class__ = _Callable

if __name__ == "__main__":
    run_commandline()
