"""Reset callbacks that raise in real jobs: what the workers and hvdrun say of it, and what becomes of the job."""

import re

import pytest
from conftest import _jobs

# Worker 2 dies in its fourth step. In the others two reset callbacks run, and those of RAISES raise in the second one.
JOB = """
import os, signal
from rueda import elastic

hvd.init()
me = elastic.worker_id()

def say(text):
    print(f"{text}\\n", end="", flush=True)

def count_ranks():
    say(f"counts {hvd.size()} ranks")

def scale_rates():
    if me in RAISES:
        raise LookupError("no rate is known for this size")
    say("scales")

@elastic.run
def train(state):
    while state.step < 8:
        if me == 2 and state.step == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(numpy.ones(1), op=hvd.Sum)
        state.step += 1
        state.commit()
    say(f"ends with {hvd.size()} ranks at step {state.step}")

state = elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0)
state.register_reset_callbacks([count_ranks, scale_rates])
train(state)
"""


def errors(done, worker):
    mark = f"[{worker}]<stderr>:"
    return [line[len(mark) :] for line in done.err.splitlines() if line.startswith(mark)]


def require_named(done, worker):
    """The worker's error says what was raised, that a reset callback did, which one, and why the job had changed."""
    said = "\n".join(errors(done, worker))
    assert "LookupError: no rate is known for this size" in said, done.err
    note = re.search(r"Reset callback 2 of 2, (\w+) \((.*), line (\d+)\), raised this after the job had changed\.", said)
    assert note and note[1] == "scale_rates" and note[2].endswith("script.py") and int(note[3]) > 1, said


def failures(done):
    """What hvdrun reports of workers that failed: {worker: cause}."""
    return {int(found[1]): found[2] for found in re.finditer(r"(?m)^hvdrun: worker (\d+) \(host .*?\) failed: (.*)", done.err)}


@pytest.fixture
def run(run_script):
    def job(raises):
        return run_script(f"RAISES = {raises!r}\n" + JOB, "--min-np", "1", "--elastic-timeout", "0", ranks=3, imports=_jobs.NUMPY)

    return job


def test_a_worker_whose_reset_callback_raises_fails_by_name_and_the_others_go_on_without_it(run):
    done = run([1])
    assert done.code == 0, done.out + done.err
    require_named(done, 1)
    assert done.lines(1) == ["counts 2 ranks"]
    assert done.lines(0)[-1] == "ends with 1 ranks at step 8" and set(done.lines(0)[:-1]) >= {"counts 2 ranks", "counts 1 ranks", "scales"}
    assert not any("LookupError" in line for line in errors(done, 0)), done.err
    assert failures(done) == {2: "killed by signal 9 (Killed), in plan 1", 1: "exited with code 1, in plan 2"}, done.err
    assert "hvdrun: the job succeeded in plan 3 without these workers" in done.err, done.err


def test_a_job_whose_workers_all_raise_in_a_reset_callback_fails_and_the_report_names_each(run):
    done = run([0, 1])
    assert done.code == 1, (done.code, done.out + done.err)
    assert not any("ends" in line for line in done.lines(0) + done.lines(1))
    found = failures(done)
    assert sorted(found) == [0, 1, 2] and found[2] == "killed by signal 9 (Killed), in plan 1", done.err
    last = [worker for worker in (0, 1) if found[worker].startswith("exited with code 1")]
    assert last, done.err
    for worker in last:
        require_named(done, worker)
