"""Elastic jobs whose hosts a script lists, which a test changes: what workers hear of that, and when."""

import contextlib
import json
import os
import pathlib
import select
import sys
import threading
import time

import pytest
from conftest import _jobs

CHAOS = pathlib.Path(__file__).parents[2] / "chaos"
sys.path.insert(0, str(CHAOS))
import job  # noqa: E402

HVDRUN, HOROVODRUN = [_jobs.HVDRUN], [sys.executable, "-m", "horovod.runner.launch"]
WORKER = [sys.executable, "-B", str(CHAOS / "worker.py")]
PRINTED = ("--host-discovery-script", "cat hosts", "--discovery-interval", "0.1")


@pytest.fixture
def start():
    """Starts a job whose script prints `hosts`, and ends what a test has left of it. words: from the launcher to the program."""
    with contextlib.ExitStack() as undo:
        room = job.Room()
        undo.callback(room.close)

        def begin(hosts, *words):
            one = job.Job(room, hosts, list(words))
            undo.callback(one.remove)
            undo.callback(one.abandon)
            return one

        yield begin


def left(one):
    """The workers that the job has interrupted or lost, and why."""
    return [(line["worker"], line["planned"], line["why"]) for line in one.told("left")]


def test_hosts_without_slots_have_those_of_the_flag(start):
    one = start({}, *HVDRUN, "-np", "4", "--min-np", "4", "--slots-per-host", "3", "--elastic-timeout", "30",
                "--host-discovery-script", "echo localhost; echo 127.0.0.1:1", *WORKER)  # fmt: skip
    one.until(one.complete, "the first plan")
    assert [one.host(worker) for worker in one.members(1)] == ["localhost"] * 3 + ["127.0.0.1"]
    assert one.end() == 0 and not one.report, one.report


@pytest.mark.parametrize("launcher, flags, waits", [
    pytest.param(HVDRUN, [], True, id="hvdrun"),
    pytest.param(HVDRUN, ["--admit", "discovered"], False, id="hvdrun, discovered"),
    pytest.param(HOROVODRUN, [], False, id="horovodrun"),
    pytest.param(HOROVODRUN, ["--admit", "ready"], True, id="horovodrun, ready"),
])  # fmt: skip
def test_others_are_interrupted_for_a_newcomer_when_it_is_ready_or_when_it_is_started(start, launcher, flags, waits):
    newcomers_wait = ["sh", "-c", 'test $RUEDA_WORKER_ID = 0 || read _ <go; exec "$@"', "sh"]
    one = start({"localhost": 1}, *launcher, "-np", "1", "--min-np", "1", *PRINTED, *flags, *newcomers_wait, *WORKER)
    os.mkfifo(one.folder / "go")
    one.until(one.complete, "the first plan")
    one.list_hosts({"localhost": 2})
    if not waits:
        one.until(lambda: left(one), "the interrupt for a worker that is not ready")
    with open(one.folder / "go", "w") as go:  # opens once the newcomer is started
        assert waits or left(one) == [(0, True, "the hosts of this job have changed")]
        assert not (waits and left(one)) and not any(line["worker"] == 1 for line in one.lines)
        go.write("now\n")
    one.until(lambda: one.complete(1), "the plan with the newcomer")
    assert sorted(one.members(one.complete(1))) == [0, 1] and left(one) == [(0, True, "the hosts of this job have changed")]
    assert one.end() == 0, one.report


def test_a_newcomer_that_was_discovered_and_is_slow_ends_no_member_and_joins_once_it_comes(start):
    newcomers_wait = ["sh", "-c", 'test $RUEDA_WORKER_ID = 0 || read _ <go; exec "$@"', "sh"]
    one = start({"localhost": 1}, *HVDRUN, "-np", "1", "--min-np", "1", "--admit", "discovered", "--rejoin-timeout", "2", *PRINTED,
                *newcomers_wait, *WORKER)  # fmt: skip
    os.mkfifo(one.folder / "go")
    one.until(one.complete, "the first plan")
    one.list_hosts({"localhost": 2})
    one.until(lambda: one.complete(2), "the plan without the newcomer")
    assert one.members(3) == [0] and not any(line["worker"] == 1 for line in one.lines)
    with open(one.folder / "go", "w") as go:
        go.write("now\n")
    one.until(lambda: one.complete(3), "the plan with the newcomer")
    assert one.members(4) == [0, 1]
    assert [planned for _, planned, _ in left(one)] == [True, True]  # nothing failed in worker 0
    assert one.end() == 0, one.report
    late = "worker 1 (host localhost) did not call init within 2 s (--rejoin-timeout)"
    assert any(f"plan 3 has 1 worker, because {late}" in line for line in one.report), one.report
    assert not any("failed" in line for line in one.report), one.report


def test_horovodrun_gives_a_host_up_after_one_failure(start):
    dies = ["sh", "-c", 'test $RUEDA_WORKER_ID = 1 && exit 3; exec "$@"', "sh", *WORKER]
    for launcher, flags, once in ((HOROVODRUN, [], True), (HOROVODRUN, ["--blacklist-after", "2"], False), (HVDRUN, [], False)):
        one = start({}, *launcher, "-np", "2", "--min-np", "1", "-H", "localhost:1,127.0.0.1:1", *flags, *dies)
        one.until(lambda: one.complete(), "a plan")
        one.until(lambda: len(one.report) > 0, "the report of the failure")
        assert one.end() == 0, one.report
        assert any("host 127.0.0.1 gets no more workers" in line for line in one.report) is once, (launcher, one.report)


def test_two_names_of_one_machine_are_two_hosts_with_agents_slots_and_a_blacklist_of_their_own(start):
    one = start({"localhost": 2, "127.0.0.1": 2}, *HVDRUN, "-np", "4", "--min-np", "1", "--blacklist-after", "1", *PRINTED, *WORKER)
    one.until(one.complete, "the first plan")
    assert [(one.host(worker), one.line(worker)["slot"]) for worker in one.members(1)] == [
        ("localhost", 0), ("localhost", 1), ("127.0.0.1", 0), ("127.0.0.1", 1)]  # fmt: skip
    agents = [one.agent_of(worker)[0] for worker in one.members(1)]
    assert agents[0] == agents[1] != agents[2] == agents[3]
    one.kill(2)
    one.until(lambda: one.complete(1, [2, 3]), "the plan without the host")
    assert one.members(one.complete(1, [2, 3])) == [0, 1]
    assert one.end() == 0, one.report
    barred = [line for line in one.report if "gets no more workers" in line]
    assert len(barred) == 1 and barred[0].startswith("hvdrun: host 127.0.0.1 gets no more workers"), one.report


COUNTING = """
import sys
sys.path.insert(0, {chaos!r})
import os
from telling import tell
import rueda.numpy as hvd
from rueda import elastic

@elastic.run
def train(state):
    plan = elastic.membership()
    tell("plan", plan=plan.plan, rank=hvd.rank(), size=hvd.size(), notices=plan.notices)
    tell("step", plan=plan.plan)
    try:
        while not hvd.allreduce(hvd.numpy_flag(), op=hvd.Sum)[0]:
            state.commit()
    except elastic.HostsUpdatedInterrupt:
        tell("left", plan=plan.plan, planned=True, why="notice")
        raise

import numpy
hvd.numpy_flag = lambda: numpy.array([float(os.path.exists("stop"))])
hvd.init()
train(elastic.ObjectState(hvd.broadcast_object, hvd.rank))
tell("done", notices=elastic.membership().notices)
"""


def test_a_list_that_leaves_the_assignment_as_it_is_notifies_nobody(start, tmp_path):
    (tmp_path / "worker.py").write_text(COUNTING.format(chaos=str(CHAOS)))
    one = start({"localhost": 3}, *HVDRUN, "-np", "3", "--min-np", "1", "--max-np", "3", "--discovery-interval", "0.1", "--host-discovery-script",
                "echo run >>runs; cat hosts", sys.executable, "-B", str(tmp_path / "worker.py"))  # fmt: skip
    runs = one.folder / "runs"
    one.until(one.complete, "the first plan")
    for hosts in ({"localhost": 3, "127.0.0.1": 2}, {"127.0.0.1": 1, "localhost": 4}, {"localhost": 4}, {"localhost": 3}):
        one.list_hosts(hosts)
        begun = len(runs.read_text())
        # The next run prints this list, and the run after that begins once hvdrun has dealt with it.
        one.poll(lambda: len(runs.read_text()) >= begun + 2 * len("run\n"), "two runs of the script")
    assert not one.told("left")
    one.list_hosts({"localhost": 2})
    one.until(lambda: one.complete(1), "the plan of two")
    assert [line["notices"] for line in one.told("plan")] == [0, 0, 0, 1, 1]
    assert one.end() == 0 and [line["notices"] for line in one.told("done")] == [1, 1], one.report


def test_a_removed_worker_exits_with_code_0_at_once(start, capsys):
    telling = ["sh", "-c", '"$@"; code=$?; echo "{\\"what\\": \\"exited\\", \\"worker\\": $RUEDA_WORKER_ID, \\"code\\": $code}"; exit $code', "sh"]
    one = start({"localhost": 3}, *HVDRUN, "-np", "3", "--min-np", "1", *PRINTED, *telling, *WORKER)
    one.until(one.complete, "the first plan")
    descriptor, exits = os.pidfd_open(one.pid(2)), []

    def await_exit():
        select.select([descriptor], [], [], job.PATIENCE)
        exits.append(time.monotonic_ns())
        os.close(descriptor)

    waiting = threading.Thread(target=await_exit)
    waiting.start()
    one.list_hosts({"localhost": 2})
    one.until(lambda: any("plan 2 has 2 workers" in line for line in one.report), "the plan without the worker")
    published = time.monotonic_ns()
    waiting.join()
    one.until(lambda: one.told("exited"), "the end of the removed worker")
    one.until(lambda: one.complete(1), "steps of the others")
    took = (exits[0] - published) / 1e6
    with capsys.disabled():
        print(f"\na removed worker ended {took:.0f} ms after hvdrun had told of the plan without it", flush=True)
    assert took < 30_000  # hvdrun would end it
    assert one.end() == 0
    assert {line["worker"]: line["code"] for line in one.told("exited")} == {0: 0, 1: 0, 2: 0}
    assert sorted(line["worker"] for line in one.told("done")) == [0, 1]  # it runs nothing behind the training
    assert not any("failed" in line or "is ended" in line for line in one.report), one.report


LISTENING = """
import os, select, sys, threading
sys.path.insert(0, {chaos!r})
from telling import tell
import rueda.numpy as hvd
from rueda import elastic, plans

def traces():
    return [thread.name for thread in threading.enumerate() if thread.name == "rueda-notices"], len(os.listdir("/proc/self/fd"))

@elastic.run
def raises(state):
    tell("inside", traces=traces())
    raise KeyError("another error")

@elastic.run
def returns(state):
    tell("inside", traces=traces())
    return "returned"

@elastic.run
def commits(state):
    while hvd.size() == 3:
        state.commit()

hvd.init()
state = elastic.ObjectState(hvd.broadcast_object, hvd.rank)
notices = select.poll()
notices.register(plans.notices_descriptor(), select.POLLIN)
tell("outside", traces=traces())
try:
    raises(state)
except KeyError:
    tell("outside", traces=traces())
assert returns(state) == "returned"
tell("outside", traces=traces())
notices.poll()
assert elastic.membership().pending and state._host_messages.empty()
try:
    commits(state)
except SystemExit as removed:
    assert removed.code == 0
    tell("removed", traces=traces()[0])
    raise
tell("stays", traces=traces()[0])
hvd.barrier()
"""


def test_nothing_listens_for_a_state_once_its_training_has_been_left(start, tmp_path):
    """By its return, by another error, and by the removal of the worker."""
    (tmp_path / "worker.py").write_text(LISTENING.format(chaos=str(CHAOS)))
    one = start({"localhost": 3}, *HVDRUN, "-np", "3", "--min-np", "1", *PRINTED, sys.executable, "-B", str(tmp_path / "worker.py"))
    one.until(lambda: len(one.told("outside")) == 9, "the ends of two trainings on all ranks")
    for worker in range(3):
        told = [line["traces"] for line in one.told("outside") if line["worker"] == worker]
        assert told == [told[0]] * 3 and told[0][0] == [], told
        assert [line["traces"][0] for line in one.told("inside") if line["worker"] == worker] == [["rueda-notices"]] * 2
    one.list_hosts({"localhost": 2})
    assert one.wait() == 0, one.report
    assert [(line["worker"], line["traces"]) for line in one.told("removed")] == [(2, [])]
    assert sorted((line["worker"], line["traces"]) for line in one.told("stays")) == [(0, []), (1, [])]
    assert not any("Traceback" in line for line in one.report), json.dumps(one.report)


HEARING = """
import sys, threading
sys.path.insert(0, {chaos!r})
from telling import tell
import rueda.numpy as hvd
from rueda import elastic

heard, changed = [], threading.Condition()

class State(elastic.ObjectState):
    def on_hosts_updated(self, timestamp, kinds):
        super().on_hosts_updated(timestamp, kinds)
        with changed:
            heard.append((timestamp, int(kinds)))
            tell("heard", timestamp=timestamp, kinds=int(kinds))
            changed.notify()

@elastic.run
def train(state):
    plan = elastic.membership().plan
    tell("plan", plan=plan, rank=hvd.rank(), size=hvd.size())
    tell("step", plan=plan)
    if plan == 1:
        with changed:  # in the middle of a step
            changed.wait_for(lambda: len(set(heard)) == 2)
    try:
        state.commit()
    except elastic.HostsUpdatedInterrupt as interrupt:
        tell("left", plan=plan, planned=True, why=str(interrupt), skip_sync=interrupt.skip_sync)
        raise

hvd.init()
train(State(hvd.broadcast_object, hvd.rank))
tell("done", plan=elastic.membership().plan)
"""


def test_two_changes_within_a_step_reach_all_workers(start, tmp_path):
    """The second comes a tenth of a second after the first, so a time in seconds would not tell them apart."""
    (tmp_path / "worker.py").write_text(HEARING.format(chaos=str(CHAOS)))
    one = start({"localhost": 3}, *HVDRUN, "-np", "3", "--min-np", "1", *PRINTED, sys.executable, "-B", str(tmp_path / "worker.py"))
    one.until(lambda: len(one.told("step")) == 3, "the first plan")
    one.list_hosts({"localhost": 2})
    one.until(lambda: len({line["worker"] for line in one.told("heard")}) == 3, "the first notice at all workers")
    one.list_hosts({"localhost": 2, "127.0.0.1": 1})
    assert one.wait() == 0, one.report
    heard = {(line["worker"], line["timestamp"], line["kinds"]) for line in one.told("heard")}
    # First that workers go, then that others come, too.
    assert heard == {(worker, number, kinds) for worker in range(3) for number, kinds in ((1, 1), (2, 3))}, heard
    assert sorted((line["worker"], line["skip_sync"]) for line in one.told("left")) == [(0, False), (1, False), (2, False)]
    assert one.members(2) == [0, 1, 3] and one.host(3) == "127.0.0.1"
    assert sorted((line["worker"], line["plan"]) for line in one.told("done")) == [(0, 2), (1, 2), (3, 2)]
