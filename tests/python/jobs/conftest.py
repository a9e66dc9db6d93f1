"""These tests start jobs of their own, as a user does."""

import os
import subprocess
import sys

import pytest

import rueda

HVDRUN = os.path.join(os.path.dirname(rueda.__file__), "bin", "hvdrun")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: of scripts/long-tests")


class Ended:
    """A job that has ended."""

    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def lines(self, rank):
        """What a rank wrote to its standard output."""
        mark = f"[{rank}]<stdout>:"
        return [line[len(mark) :] for line in self.out.splitlines() if line.startswith(mark)]


TORCH = "import torch\nimport rueda.torch as hvd\ntorch.set_num_threads(1)\n"
NUMPY = "import numpy\nimport rueda.numpy as hvd\n\n"  # as many lines


@pytest.fixture
def run_script(tmp_path):
    """Runs the text of a script on `ranks` ranks, with further flags of hvdrun's. It begins with imports for PyTorch, or for
    NumPy: what has nothing to do with PyTorch need not wait 2 s of processor time for it on each rank."""

    def run(text, *flags, ranks=2, environment=None, imports=TORCH):
        script = tmp_path / "script.py"
        script.write_text(imports + text)
        command = [HVDRUN, "-np", str(ranks), *flags, sys.executable, str(script)]
        surroundings = {**os.environ, "RUEDA_TIMEOUT_SECONDS": "120", **(environment or {})}
        return Ended(subprocess.run(command, capture_output=True, text=True, timeout=240, env=surroundings, cwd=tmp_path))

    return run
