"""horovod.runner.launch._run_elastic() and the command horovodrun, with real jobs."""

import os
import pathlib
import subprocess
import sys

import pytest
from conftest import HVDRUN

# Worker 1 ends with an error, the others once they are in the next plan.
WORKER = """
import os, sys
import rueda.numpy as hvd
from rueda import elastic

hvd.init()

@elastic.run
def train(state):
    if elastic.worker_id() == 1:
        os._exit(3)
    hvd.barrier()

if len(sys.argv) == 1:
    train(elastic.ObjectState(hvd.broadcast_object, hvd.rank))
print(f"rank {hvd.rank()} of {hvd.size()}\\n", end="", flush=True)
"""

CALL = """
import sys
from horovod.runner import launch
from horovod.runner.elastic import constants, driver

exec(sys.argv.pop(1))
args = launch.parse_args()
try:
    launch._run_elastic(args)
except RuntimeError as error:
    print("RuntimeError:", error)
    assert constants.RESET_LIMIT_EXCEEDED_MESSAGE.format(0) in str(error) or args.reset_limit is None
"""
FAILED = "RuntimeError: Horovod detected that one or more processes exited with non-zero status"


@pytest.fixture
def called(tmp_path):
    """Calls _run_elastic() for two workers behind a line of Python, in a process of its own."""
    (tmp_path / "worker.py").write_text(WORKER)

    def call(*flags, before="", program=("worker.py",), environment=()):
        command = [sys.executable, "-c", CALL, before, "-np", "2", *flags, sys.executable, *program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=tmp_path, env={**os.environ, **dict(environment)})
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    return call


def test_a_job_runs_to_its_end(called):
    done = called(program=("worker.py", "well"))
    assert sorted(done.stdout.splitlines()) == [f"[{rank}]<stdout>:rank {rank} of 2" for rank in (0, 1)] and done.stderr == ""


def test_the_survivors_of_a_job_make_it_succeed(called):
    done = called("--min-np", "1")
    assert done.stdout == "[0]<stdout>:rank 0 of 1\n", done.stdout + done.stderr
    assert "worker 1 (host localhost, pid " in done.stderr  # hvdrun's lines are passed on


@pytest.mark.parametrize("flags, before, environment, why", [
    pytest.param(["--elastic-timeout", "0"], "", {}, "could run within 0 s (--elastic-timeout)", id="no wait"),
    pytest.param(["--elastic-timeout", "0.25"], "", {}, "could run within 0.25 s (--elastic-timeout)", id="part of a second"),
    pytest.param([], "driver.ELASTIC_TIMEOUT_SECS = 0.25", {}, "could run within 0.25 s (--elastic-timeout)", id="the constant"),
    pytest.param([], "", {"HOROVOD_ELASTIC_TIMEOUT": "0.5"}, "could run within 0.5 s (--elastic-timeout)", id="the variable"),
    pytest.param([], "", {"HOROVOD_ELASTIC_TIMEOUT": "soon"}, 'HOROVOD_ELASTIC_TIMEOUT is "soon"; it must be seconds', id="a bad variable"),
    pytest.param(["--reset-limit", "0", "--min-np", "1"], "", {}, "the job was reset more than 0 times (--reset-limit)", id="the reset limit"),
    pytest.param(["--min-np", "0"], "", {}, "--min-np: ", id="a value that hvdrun refuses"),
])  # fmt: skip
def test_a_job_that_fails_raises_horovod_s_text_and_hvdrun_s_reason(called, flags, before, environment, why):
    said = called(*flags, before=before, environment=environment).stdout
    assert FAILED in said and why in said.partition(FAILED)[2], said


@pytest.mark.parametrize("launcher, has", [([HVDRUN], False), ([sys.executable, "-m", "horovod.runner.launch"], True)], ids=["hvdrun", "horovodrun"])
def test_the_command_horovodrun_says_horovod_s_text_if_an_elastic_job_fails(tmp_path, launcher, has):
    (tmp_path / "worker.py").write_text(WORKER)
    for flags, fails in ((["--reset-limit", "0"], True), ([], False)):
        command = [*launcher, "-np", "2", "--min-np", "1", *flags, sys.executable, "worker.py"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=tmp_path)
        assert (done.returncode != 0) is fails and (FAILED.removeprefix("RuntimeError: ") in done.stderr) is (fails and has), done.stderr


def test_the_interval_of_the_driver_and_verbose_are_handed_to_hvdrun(called, tmp_path):
    (tmp_path / "elastic_calls.py").write_text(pathlib.Path(__file__).with_name("elastic_calls.py").read_text())
    program = ["-c", "import elastic_calls; print(f'words {elastic_calls.words_of_hvdrun()}\\n', end='')"]
    for interval in (None, 0.25):
        before = "" if interval is None else f"driver.DISCOVER_HOSTS_FREQUENCY_SECS = {interval}"
        done = called("--host-discovery-script", "echo localhost:2", "--verbose", before=before, program=program)
        assert done.stdout.count(f"'--discovery-interval', '{interval or 1.0}'") == 2, done.stdout + done.stderr
        assert done.stdout.count("'--verbose'") == 2, done.stdout
    assert "--discovery-interval" not in called(program=program).stdout
