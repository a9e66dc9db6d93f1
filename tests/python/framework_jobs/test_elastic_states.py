"""States of TensorFlow in elastic jobs: a worker dies, another comes, and a third is removed. After each change the variables of
models and optimizers and the objects are equal on all ranks, and those of a replay in one process, bit for bit."""

import pathlib
import signal
import sys

import numpy
import pytest
from conftest import HVDRUN

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "chaos"))
import elastic_chaos  # noqa: E402
import job  # noqa: E402
import training  # noqa: E402
from scenarios import FIRST, SECOND, Outcome  # noqa: E402

DTYPES = {"variables": numpy.float64, "session": numpy.float64, "keras": numpy.float32}


@pytest.mark.parametrize("kind", [pytest.param("keras", marks=pytest.mark.short), "variables", "session"])
def test_after_a_death_a_newcomer_and_a_removal_the_state_is_that_of_a_replay(kind):
    hosts, room = {FIRST: 2, SECOND: 1}, job.Room()
    one = job.Job(room, hosts, job.command_of(HVDRUN, hosts, 1, program=(str(HERE / "state_worker.py"), kind)))
    try:
        one.until(one.complete, "the first plan")
        first = one.complete()
        assert one.members(first) == [0, 1, 2]
        one.kill(1, signal.SIGUSR2)
        one.until(lambda: one.complete(first, [1]), "the plan without worker 1")
        second = one.complete(first, [1])
        one.until(lambda: one.complete(second), "a new worker's plan")
        third = one.complete(second)
        assert sorted(one.members(third)) == [0, 2, 3]
        one.list_hosts({FIRST: 2})
        one.until(lambda: one.complete(third, [1, 2]), "the plan without the second host")
        assert one.members(one.complete(third, [1, 2])) == [0, 3]
        assert one.end() == 0, one.report
        replay = training.Replay(dtype=DTYPES[kind])
        fates = Outcome(None, None, {1: "killed by signal 9"}, 0)
        assert not elastic_chaos.states(one, replay) + elastic_chaos.lost_steps(one) + elastic_chaos.reported(one, fates), one.report
        assert sorted(line["worker"] for line in one.told("done")) == [0, 3]
    finally:
        one.abandon()
        one.remove()
        room.close()
