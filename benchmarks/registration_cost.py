"""What every `import torch` pays for the backend "rueda" being installed: its entry point is loaded and called.

    .venv/bin/python benchmarks/registration_cost.py                # needs the package: pip install bindings/python
    ... registration_cost.py --turns 20

Each turn is an interpreter of its own that imports PyTorch without any backend, and then does for Rueda's what PyTorch would
have done. Tells the median and the least over the turns, in milliseconds:

    find       PyTorch's search for entry points among all installed packages, which it makes whether there are any or not
    register   loading the entry point and calling it: what the package adds
"""

import argparse
import os
import statistics
import subprocess
import sys

TURN = """
import time, torch
from importlib.metadata import entry_points
times = [time.perf_counter()]
(point,) = [point for point in entry_points(group="torch.backends") if point.name == "rueda"]
times.append(time.perf_counter())
point.load()()
times.append(time.perf_counter())
assert "rueda" in torch.distributed.Backend.backend_list
print(times[1] - times[0], times[2] - times[1])
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    alone = dict(os.environ, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    turns = []
    for _ in range(options.turns):
        done = subprocess.run([sys.executable, "-c", TURN], env=alone, capture_output=True, text=True, check=True)
        turns.append([1000 * float(seconds) for seconds in done.stdout.split()])
    for name, taken in zip(("find", "register"), zip(*turns)):
        print(f"{name:8} median {statistics.median(taken):6.2f} ms, least {min(taken):6.2f} ms")


main()
