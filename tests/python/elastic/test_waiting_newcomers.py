"""New workers of a running job wait outside, however long they take: the others hear of one when its training begins."""

import os
import re

import pytest

# Worker 1 dies in its third step, and a new one comes to its slot. In it, arrive() lets the others know that it is there, and
# waits for rank 0 to open the gate: a pipe that the test has made.
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
    open(f"arrived{me}", "w").close()
    with open("gate") as gate:
        gate.read()

def has_come(worker):
    return hvd.allreduce(torch.tensor(float(os.path.exists(f"arrived{worker}"))), op=hvd.Max).item() > 0

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
        if hvd.size() == 2 and state.beyond < BEYOND and has_come(AWAITED):
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

    def job(text):
        done = run_script(JOB + text, "--min-np", "2", ranks=3)
        done.lines = sorted(re.sub(r"^\[\d+\]<stdout>:", "", line) for line in done.out.splitlines() if "worker " in line)
        return done

    return job


def test_the_others_go_on_while_a_new_worker_builds_and_join_it_when_it_trains(run):
    done = run("""
BEYOND, AWAITED = 50, 3
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
BEYOND, AWAITED = 1000000, 3
if new:
    arrive()
    say("was let in")
""" + LOOP.replace("state.commit()", "state.commit()\n        if state.beyond == 5:\n            return say('ends')") + """
train(state)
""")  # fmt: skip
    assert done.code == 0, done.out + done.err
    assert done.lines == ["worker 0: ends", "worker 2: ends", "worker 3: waits as rank 2 of 3, 1 of 3 here"]


def test_a_new_worker_that_dies_while_it_waits_is_replaced_and_so_is_one_that_shuts_down(run):
    done = run("""
BEYOND, AWAITED = 3, 5
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
            if hvd.size() == 2 and has_come(3):
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
