"""Where Horovod had the launcher before 0.20: `python -m horovod.run -np 4 ...` is hvdrun, as horovodrun is.

horovod.run is a function since then. Importing this module puts it there instead, so it can be called as well.
"""

import sys
import types

from rueda.launch import run
from rueda.programs import hvdrun as run_commandline


class _Callable(types.ModuleType):
    __call__ = staticmethod(run)


sys.modules[__name__].__class__ = _Callable

if __name__ == "__main__":
    run_commandline()
