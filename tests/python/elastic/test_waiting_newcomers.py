"""New workers of a running job wait outside, however long they take: the others hear of one when its training begins."""

import os
import pathlib
import re
import sys

import pytest
from conftest import _jobs

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from elastic_jobs import PARTS, flags, require_trained, told  # noqa: E402

# Worker 1 dies in its third step, and a new one comes to its slot. In it, arrive() lets the others know that it is there, and
# waits for rank 0 to open the gate. Both are pipes that the test has made. The others do not need the cores until it is there.
JOB = """
import os, signal
import rueda.elastic
from rueda import elastic

hvd.init()
me, new = elastic.worker_id(), elastic.worker_id() > 2

def say(text):
    print(f"worker {me}: {text}\\n", end="", flush=True)

def arrive():
    where = elastic.membership()
    assert where.waits and not where.holds_state and where.plan == 2, where
    say(f"waits as rank {hvd.rank()} of {hvd.size()}, {hvd.local_rank()} of {hvd.local_size()} here")
    open("arrival", "w").close()  # once rank 0 listens
    with open("gate") as gate:
        gate.read()

def await_arrival():
    if hvd.rank() == 0:
        open("arrival").close()
    hvd.barrier()

def open_gate():
    if hvd.rank() == 0:
        with open("gate", "w") as gate:
            gate.write("open")

state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0, beyond=0)
"""

LOOP = """
@hvd.elastic.run
def train(state):
    while not (state.beyond >= BEYOND and hvd.size() == 3):
        if me == 1 and state.step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        state.step += 1
        if hvd.size() == 2 and state.beyond < BEYOND:
            if state.beyond == 0:
                await_arrival()
            state.beyond += 1
            assert elastic.membership().plan == 2 and elastic.membership().newcomers == 0, elastic.membership()
            if state.beyond == BEYOND:
                say(f"has taken {BEYOND} steps beside it")
                open_gate()
        state.commit()
    return elastic.membership()
"""


@pytest.fixture
def run(run_script, tmp_path):
    os.mkfifo(tmp_path / "gate")
    os.mkfifo(tmp_path / "arrival")

    def job(text):
        done = run_script(JOB + text, "--min-np", "2", ranks=3)
        done.lines = sorted(re.sub(r"^\[\d+\]<stdout>:", "", line) for line in done.out.splitlines() if "worker " in line)
        return done

    return job


def test_the_others_go_on_while_a_new_worker_builds_and_join_it_when_it_trains(run):
    done = run("""
BEYOND = 50
model = torch.nn.Linear(2, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters())
if new:
    try:
        hvd.allreduce(torch.ones(1))
    except ValueError as error:
        assert str(error).startswith("allreduce(): this process is a new worker of a running job"), error
    else:
        raise AssertionError("a collective of a worker that waits was not refused")
    arrive()
""" + LOOP + """
end = train(state)
assert not end.waits
optimizer.zero_grad()
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
say(f"ends in plan {end.plan} as rank {hvd.rank()} of {hvd.size()}")
""")  # fmt: skip
    assert done.code == 0, done.out + done.err
    assert done.lines == [
        "worker 0: ends in plan 3 as rank 0 of 3",
        "worker 0: has taken 50 steps beside it",
        "worker 2: ends in plan 3 as rank 1 of 3",
        "worker 2: has taken 50 steps beside it",
        "worker 3: ends in plan 3 as rank 2 of 3",
        "worker 3: waits as rank 2 of 3, 1 of 3 here",
    ]


def test_a_job_that_ends_while_a_new_worker_waits_ends_without_it_and_well(run):
    done = run("""
BEYOND = 1000000
if new:
    arrive()
    say("was let in")
""" + LOOP.replace("state.commit()", "state.commit()\n        if state.beyond == 5:\n            return say('ends')") + """
train(state)
""")  # fmt: skip
    assert done.code == 0, done.out + done.err
    assert done.lines == ["worker 0: ends", "worker 2: ends", "worker 3: waits as rank 2 of 3, 1 of 3 here"]


@pytest.mark.long
def test_a_new_worker_that_dies_while_it_waits_is_replaced_and_so_is_one_that_shuts_down(run):
    done = run("""
BEYOND = 3
if me == 3:
    os.kill(os.getpid(), signal.SIGKILL)
if me == 4:
    hvd.shutdown()
    raise SystemExit(0)
if new:
    arrive()
""" + LOOP + """
say(f"ends in plan {train(state).plan}")
""")  # fmt: skip
    assert done.code == 0, done.out + done.err
    assert [line for line in done.lines if "ends" in line] == [f"worker {one}: ends in plan 3" for one in (0, 2, 5)]
    assert "worker 4 (host localhost" in done.err and "exited with code 0 before it joined the job" in done.err, done.err


@pytest.mark.long
def test_in_a_loop_of_its_own_a_new_worker_joins_by_reset(run):
    done = run("""
def one_step():
    return hvd.allreduce(torch.ones(1), op=hvd.Sum).item()

if new:
    arrive()
    elastic.reset()
    assert not elastic.membership().waits and elastic.membership().plan == 3
else:
    taken = beyond = 0
    while elastic.membership().plan < 3:
        try:
            if me == 1 and taken == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            one_step()
            taken += 1
            if hvd.size() == 2:
                if beyond == 0:
                    await_arrival()
                beyond += 1
            if hvd.allreduce(torch.tensor(float(elastic.membership().newcomers)), op=hvd.Max).item():
                assert beyond >= 20, beyond
                elastic.reset()
            elif beyond == 20:
                open_gate()
        except hvd.HorovodInternalError:
            elastic.reset()
say(f"{one_step():.0f} ranks")
""")  # fmt: skip
    assert done.code == 0, done.out + done.err
    assert [line for line in done.lines if "ranks" in line] == [f"worker {one}: 3 ranks" for one in (0, 2, 3)]


@pytest.mark.long
def test_a_dump_of_the_job_names_a_new_worker_that_waits_outside(run):
    done = run("""
import re, subprocess

BEYOND = 1
if new:
    arrive()

def parent(process):
    with open(f"/proc/{process}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])

def open_gate():
    if hvd.rank() == 0:  # its parents are an agent, a guard and hvdrun
        program = os.path.join(os.path.dirname(rueda.__file__), "bin", "hvdrun")
        for _ in range(20):  # the new worker's answer may be late, but not each time
            dump = subprocess.run([program, "--dump", str(parent(parent(os.getppid())))], capture_output=True, text=True)
            assert dump.returncode == 0, dump.stderr
            if found := re.search("worker 3 .*", dump.stdout):
                break
        say(re.sub(", pid [0-9]+", "", found[0] if found else "no record"))
        with open("gate", "w") as gate:
            gate.write("open")
""" + LOOP + """
train(state)
""")  # fmt: skip
    assert done.code == 0, done.out + done.err
    assert "worker 0: worker 3 (host localhost) is new and waits outside of plan 2" in done.lines, done.lines


def test_a_new_worker_whom_the_last_one_could_not_give_the_state_does_not_begin_from_nothing(run_script):
    done = run_script("""
import os, signal
from rueda import elastic

hvd.init()
me = elastic.worker_id()

class Last:
    def __reduce__(self):
        if me == 0 and elastic.membership().plan == 3:  # in the middle of the sync
            os.kill(os.getpid(), signal.SIGKILL)
        return Last, ()

@elastic.run
def train(state):
    print(f"worker {me}: begins at step {state.step}\\n", end="", flush=True)
    while me < 2:
        if me == 1 and state.step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        state.step += 1
        state.commit()

train(elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0, last=Last()))
""", "--min-np", "1", imports=_jobs.NUMPY)  # fmt: skip
    assert done.code != 0
    assert "RuntimeError: no worker is left that has the state of the training" in done.err, done.err
    assert "worker 2: begins" not in done.out, done.out
    assert "hvdrun: the job failed: no worker is left that holds the job's state" in done.err, done.err


# Worker 1 leaves and comes back before its training. Worker 0 dies before it can give it the state.
COMES_TWICE = """
from rueda.elastic import loop

hvd.init()
me = rueda.elastic.worker_id()
if me == 1:
    hvd.shutdown()
    open("left", "w").close()
    hvd.init()
    attempt(dict(allreduce=lambda: hvd.allreduce(numpy.ones(1))))

agree_on_sync = loop.agreement.agree_on_sync

def agree_or_die(*arguments):
    if me == 0 and os.path.exists("left") and hvd.size() == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return agree_on_sync(*arguments)

loop.agreement.agree_on_sync = agree_or_die
state = rueda.elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0)

@rueda.elastic.run
def train(state):
    tell("begins")
    if me == 0:
        list_slots(2)
        await_change(state)
        state.commit()

train(state)
"""


def test_a_new_worker_that_shuts_down_and_begins_anew_before_its_training_is_new_still(run_script):
    done = run_script(PARTS + COMES_TWICE, *flags(1), "--admit", "discovered", ranks=1, imports=_jobs.NUMPY)
    assert done.code != 0
    (refused,) = told(done, "refused")
    assert refused["worker"] == 1 and refused["plan"] > 2, refused  # it was in a plan before
    assert "RuntimeError: no worker is left that has the state of the training" in done.err, done.err
    assert {line["worker"] for line in told(done, "begins")} == {0}, done.out


# Worker 1 leaves and comes back by init(), once it has taken part: by a loop of the program's own, or by reset().
LEAVES_LATER = """
import functools, select
from rueda import plans

def anew():
    hvd.shutdown()
    hvd.init()

hvd.init()

@functools.partial(rueda.elastic.run_fn, reset=anew if rueda.elastic.worker_id() == 1 else rueda.elastic.reset)
def train(state):
    if rueda.elastic.membership().plan == 1:
        list_slots(2)
        select.select([plans.notices_descriptor()], [], [])
        raise rueda.elastic.HostsUpdatedInterrupt(False)
    if rueda.elastic.membership().plan == 2:
        hvd.barrier()
        raise rueda.elastic.HostsUpdatedInterrupt(False)
    tell("trained", sum=float(hvd.allreduce(numpy.ones(1), op=hvd.Sum)[0]))

if rueda.elastic.worker_id() == 1 and JOINS_ITSELF:
    rueda.elastic.reset()
    anew()
    assert not rueda.session.current().is_new
train(rueda.elastic.ObjectState(hvd.broadcast_object, hvd.rank))
"""


@pytest.mark.parametrize("admission", ["ready", "discovered"])
def test_a_new_worker_that_has_taken_part_is_not_new_after_another_init(run_script, admission):
    joins = f"JOINS_ITSELF = {admission == 'ready'}\n"
    done = run_script(joins + PARTS + LEAVES_LATER, *flags(1), "--admit", admission, ranks=1, imports=_jobs.NUMPY)
    require_trained(done, 3, sum=2.0)
