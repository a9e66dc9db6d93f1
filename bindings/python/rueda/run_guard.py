"""Becomes hvdrun for run(), which then does not outlive the caller, however that ends: the kernel tells it by SIGTERM.

Usage: run_guard.py CALLER_PID COMMAND...
"""

import ctypes
import os
import signal
import sys
from typing import List

_PR_SET_PDEATHSIG = 1


def main(caller: int, command: List[str]) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # which holds beyond execv
    if os.getppid() != caller:  # it ended before the line above
        sys.exit(1)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and mpirun would inherit that
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
