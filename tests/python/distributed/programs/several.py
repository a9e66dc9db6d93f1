"""Runs programs of this folder one after the other, in one process. Usage: torchrun ... several.py "PROGRAM ARGUMENTS" ...

A process that imports PyTorch costs more than most of them. A rank prints which of them have ended.
"""

import os
import pathlib
import runpy
import shlex
import sys

folder = pathlib.Path(__file__).parent
kept = []  # as training.py says
for command in sys.argv[1:]:
    sys.argv = shlex.split(command)
    kept.append(runpy.run_path(str(folder / sys.argv[0]), run_name="__main__"))
    print(f"{command}: ended", flush=True)
os._exit(0)
