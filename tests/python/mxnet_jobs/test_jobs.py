"""Jobs of rueda.mxnet, in an environment with MXNet: the example learns, a dead rank is named, a missing or old MXNet is told."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import rueda

HVDRUN = os.path.join(os.path.dirname(rueda.__file__), "bin", "hvdrun")
EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "mxnet" / "train_digits.py"


def run(*command, ranks=2):
    surroundings = dict(os.environ, OMP_NUM_THREADS="1", RUEDA_TIMEOUT_SECONDS="120")
    return subprocess.run([HVDRUN, "-np", str(ranks), sys.executable, *map(str, command)], capture_output=True, text=True, timeout=600, env=surroundings)


@pytest.mark.parametrize("flags", [[], ["--fp16"]], ids=["f32", "fp16"])
def test_the_example_learns_and_all_ranks_end_with_the_same_parameters(flags):
    done = run(EXAMPLE, "--steps", 60, *flags)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"rank \d: accuracy (\S+), parameters (\S+)$", done.stdout, re.M)
    assert len(found) == 2 and found[0] == found[1] and float(found[0][0]) > 0.9, done.stdout


def test_a_rank_that_is_killed_is_named_to_the_others(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import os
import rueda.mxnet as hvd
import mxnet as mx
hvd.init()
hvd.allreduce(mx.nd.ones(3))
if hvd.rank() == 1:
    os.kill(os.getpid(), 9)
try:
    hvd.allreduce(mx.nd.ones(3))
except hvd.PeerLostError as error:
    print("rank 1" in str(error), flush=True)
    raise
""")
    done = run(script)
    assert done.returncode != 0 and "[0]<stdout>:True" in done.stdout, done.stdout + done.stderr


def test_mxnet_and_numpy_are_one_rank_in_one_process(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import numpy
import horovod.mxnet as hvd
import rueda.numpy
import mxnet as mx
hvd.init()
assert hvd.rank() == rueda.numpy.rank() and rueda.numpy.is_initialized()
array = rueda.numpy.allreduce_async(numpy.full(3, hvd.rank() + 1.0), op=rueda.numpy.Sum, name="array")
print(hvd.allreduce(mx.nd.ones(2), op=hvd.Sum, name="tensor").asnumpy().tolist(), array.wait().tolist())
""")
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"<stdout>:(.*)$", done.stdout, re.M) == ["[2.0, 2.0] [3.0, 3.0, 3.0]"] * 2


def test_operations_before_init_after_shutdown_and_in_a_forked_process_are_refused(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import os
import rueda.mxnet as hvd
import rueda.numpy
import mxnet as mx
one = mx.nd.ones(1)
def attempt():
    try:
        hvd.allreduce(one)
    except hvd.NotInitializedError as error:
        print(error, flush=True)
attempt()
hvd.init()
if os.fork() == 0:
    try:
        rueda.numpy.allreduce([1.0])
    except hvd.NotInitializedError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
hvd.shutdown()
attempt()
hvd.init()
print(hvd.allreduce(one, op=hvd.Sum).asscalar())
""")
    done = run(script)
    assert done.returncode == 0, done.stderr
    said = [line.partition(":")[2] for line in done.stdout.splitlines() if line.startswith("[0]")]
    assert said[0] == said[2] == "Rueda is not initialised: call init() first" and said[3] == "2.0", said
    assert "was forked from rank 0" in said[1]


def test_an_mxnet_that_is_missing_or_old_and_a_numpy_2_are_told():
    def error(text):
        return subprocess.run([sys.executable, "-c", text + "; import rueda.mxnet"], capture_output=True, text=True).stderr

    assert "rueda.mxnet needs MXNet 1.9.1, which cannot be imported" in error("import sys; sys.modules['mxnet'] = None")
    old = "import sys, types; sys.modules['mxnet'] = types.ModuleType('mxnet'); sys.modules['mxnet'].__version__ = '1.8.0'"
    assert "MXNet 1.8.0 is installed; rueda.mxnet needs 1.9.1" in error(old)
    assert "MXNet needs NumPy 1.x" in error("import numpy; numpy.__version__ = '2.1.0'")
