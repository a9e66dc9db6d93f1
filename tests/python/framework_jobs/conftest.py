"""These tests start jobs of their own, as a user does. Each process imports TensorFlow, so there are few."""

import os
import subprocess
import sys

import pytest

import rueda

HVDRUN = os.path.join(os.path.dirname(rueda.__file__), "bin", "hvdrun")


class Ended:
    """A job that has ended."""

    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def lines(self, rank):
        """What a rank wrote to its standard output."""
        mark = f"[{rank}]<stdout>:"
        return [line[len(mark) :] for line in self.out.splitlines() if line.startswith(mark)]


def pytest_configure(config):
    config.addinivalue_line("markers", "short: also run by scripts/test")


@pytest.fixture
def run_script(tmp_path):
    """Runs the text of a script on two ranks, or on `ranks`, with further flags of hvdrun's."""

    def run(text, *flags, ranks=2, environment=None):
        script = tmp_path / "script.py"
        script.write_text("import os\nimport tensorflow as tf\ntf.config.threading.set_intra_op_parallelism_threads(1)\n" + text)
        surroundings = {**os.environ, "RUEDA_TIMEOUT_SECONDS": "120", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", **(environment or {})}
        command = [HVDRUN, "-np", str(ranks), *flags, sys.executable, str(script)]
        return Ended(subprocess.run(command, capture_output=True, text=True, timeout=1500, env=surroundings, cwd=tmp_path))

    return run
