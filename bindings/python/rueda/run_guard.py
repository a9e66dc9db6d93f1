"""Starts hvdrun for run() so that it does not outlive the caller: the kernel sends it SIGTERM when the caller ends,
even if killed.

Usage: run_guard.py CALLER_PID COMMAND...
"""

import ctypes
import os
import signal
import sys
from typing import List

_PR_SET_PDEATHSIG = 1


def main(caller: int, command: List[str]) -> None:
    """Replaces this process by the command. Exits with 1 if the process `caller` has ended already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # stays in force after execv
    if os.getppid() != caller:  # the caller ended before the line above
        sys.exit(1)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and mpirun would inherit that
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
