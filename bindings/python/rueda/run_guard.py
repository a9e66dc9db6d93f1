"""Runs hvdrun for run(), so that neither it nor run()'s folder outlives the caller, however that ends: the kernel tells.

Usage: run_guard.py CALLER_PID FOLDER COMMAND...   The exit code is the command's.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from typing import Any, List, Optional

_PR_SET_PDEATHSIG = 1


def main(caller: int, folder: str, command: List[str]) -> int:
    job: Optional[subprocess.Popen] = None
    ending = False

    def end(*_: Any) -> None:
        nonlocal ending
        ending = True
        if job is not None:
            job.terminate()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, end)
    signal.signal(signal.SIGINT, lambda *_: None)  # of a terminal, which hvdrun gets as well
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    code = 0
    if not ending and os.getppid() == caller:
        job = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        if ending:
            end()
        code = job.wait()
    if os.getppid() != caller:
        shutil.rmtree(folder, ignore_errors=True)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
