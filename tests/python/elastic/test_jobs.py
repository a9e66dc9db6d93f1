"""Elastic jobs of real processes: workers are killed, and the others go on with a state that a replay of the steps in one
process has too, bit for bit."""

import hashlib
import json
import os
import re
import subprocess
import sys

import pytest
import torch
from conftest import TORCH, Ended, _jobs

WORKERS = os.environ.get("ELASTIC_WORKERS", "")  # tests/support/elastic_workers.cc

STEPS = 24

# The gradient of the weights is the input: small whole numbers, which every sum and every step keeps exact. What a rank
# puts in follows from the step and the rank alone, so a replay needs to know only how many ranks took each step.
TRAINING = """
import hashlib, json, os, signal
import rueda.elastic
torch.set_default_dtype(torch.float64)

def digest(model, optimizer):
    numbers = [*model.parameters(), *(optimizer.state[each]["momentum_buffer"] for each in model.parameters())]
    return hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in numbers)).hexdigest()

def inputs(step, rank):
    return torch.tensor([[float((3 * step + rank) % 5), 1.0 + rank, float(step % 3)]])

def die():
    os.kill(os.getpid(), signal.SIGKILL)

hvd.init()
me = rueda.elastic.worker_id()
model = torch.nn.Linear(3, 1, bias=False)
torch.nn.init.constant_(model.weight, float(hvd.rank()))  # rank 0's zeros count
optimizer = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.5)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Sum)
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0, sizes=[], resets=0)
calls = []

def one_step(state):
    optimizer.zero_grad()
    model(inputs(state.step, hvd.rank())).sum().backward()
    optimizer.step()
    state.step += 1
    state.sizes.append(hvd.size())

def tell(state, **more):
    digests = set(hvd.allgather_object(digest(model, optimizer)))
    text = json.dumps(dict(worker=me, rank=hvd.rank(), size=hvd.size(), step=state.step, sizes=state.sizes, calls=len(calls),
                           digests=sorted(digests), plan=rueda.elastic.membership().plan, **more))
    os.write(1, text.encode() + b"\\n")  # in one piece
"""

LOOP = """
@hvd.elastic.run
def train(state):
    calls.append(state.step)
    while state.step < STEPS:
        if VICTIMS.get(me) == state.step:
            die()
        one_step(state)
        state.commit()
    return "trained"

tell(state, returned=train(state))
"""


def job(folder, text, victims=(), ranks=4, least=2, training=TRAINING, steps=STEPS, imports=TORCH):
    script = folder / "script.py"
    script.write_text(imports + training + f"STEPS, VICTIMS = {steps}, {dict(victims)!r}\n" + text)
    surroundings = {**os.environ, "RUEDA_TIMEOUT_SECONDS": "120"}
    command = [WORKERS, str(ranks), str(least), sys.executable, str(script)]
    return Ended(subprocess.run(command, capture_output=True, text=True, timeout=240, env=surroundings, cwd=folder))


def told(done):
    """What workers told, by their numbers."""
    lines = [json.loads(found[1]) for line in done.out.splitlines() if (found := re.match(r"(?:\[\d+\]<stdout>:)?(\{.*)", line))]
    return {each["worker"]: each for each in lines}


def replayed(sizes):
    """The digest of the state after steps with so many ranks, from one process."""
    weights, momentum = torch.zeros(1, 3, dtype=torch.float64), torch.zeros(1, 3, dtype=torch.float64)
    for step, size in enumerate(sizes):
        gradient = sum(torch.tensor([[float((3 * step + rank) % 5), 1.0 + rank, float(step % 3)]], dtype=torch.float64) for rank in range(size))
        momentum = gradient if step == 0 else momentum * 0.5 + gradient
        weights = weights - 0.25 * momentum
    return hashlib.sha256(weights.numpy().tobytes() + momentum.numpy().tobytes()).hexdigest()


def require_true_states(done, survivors, sizes):
    assert done.code == 0, done.out + done.err
    workers = told(done)
    assert sorted(workers) == survivors, done.out + done.err
    for each in workers.values():
        assert each["sizes"] == sizes and each["step"] == len(sizes)
        assert each["digests"] == [replayed(sizes)], each
    assert sorted(each["rank"] for each in workers.values()) == list(range(len(survivors)))
    return workers


@pytest.mark.long
@pytest.mark.parametrize("victim", [pytest.param(0, id="rank 0"), pytest.param(2, id="another")])
def test_one_of_four_is_killed_and_the_others_lose_no_committed_step(tmp_path, victim):
    done = job(tmp_path, LOOP, {victim: 10})
    workers = require_true_states(done, [each for each in range(4) if each != victim], [4] * 10 + [3] * (STEPS - 10))
    assert all(each["calls"] == 2 and each["returned"] == "trained" and each["plan"] == 2 for each in workers.values())
    assert "killed by signal 9" in done.err


@pytest.mark.long
def test_hvdrun_goes_on_without_rank_0(run_script):
    source = TRAINING + f"STEPS, VICTIMS = {STEPS}, {{0: 10}}\n" + LOOP
    done = run_script(source, "--min-np", "2", ranks=4)
    assert done.code == 0, done.out + done.err
    workers = told(done)
    assert {1, 2, 3} <= set(workers), done.out + done.err  # a new worker in the slot of the dead one may have joined
    for each in workers.values():
        assert each["sizes"][:10] == [4] * 10 and each["step"] == STEPS and each["digests"] == [replayed(each["sizes"])]


NUMBERS = "rank size local_rank local_size cross_rank cross_size".split()


def test_after_a_death_the_queries_tell_new_numbers_and_the_environment_those_of_the_start(run_script):
    source = TRAINING + f"STEPS, VICTIMS, NUMBERS = {STEPS}, {{0: 10}}, {NUMBERS}\n" + """
def asked():
    return [getattr(hvd, name)() for name in NUMBERS]

def surroundings():
    return [int(os.environ[f"HOROVOD_{name.upper()}"]) for name in NUMBERS]

start, variables = asked(), dict(os.environ)
""" + LOOP.replace("tell(state, returned=train(state))", "train(state)") + """
tell(state, start=start, now=asked(), surroundings=surroundings(), same=variables == dict(os.environ))
"""
    # The host of worker 0 gets no other worker.
    done = run_script(source, "--min-np", "2", "-H", "127.0.0.1:1,localhost:2", "--blacklist-after", "1", ranks=3)
    assert done.code == 0, done.out + done.err
    workers = told(done)
    assert sorted(workers) == [1, 2], done.out + done.err
    starts, ends = {1: [1, 3, 0, 2, 1, 2], 2: [2, 3, 1, 2, 0, 1]}, {1: [0, 2, 0, 2, 0, 1], 2: [1, 2, 1, 2, 0, 1]}
    for worker, each in workers.items():
        assert each["start"] == each["surroundings"] == starts[worker] and each["now"] == ends[worker] and each["same"], each
        assert each["digests"] == [replayed(each["sizes"])], each


@pytest.mark.long
def test_two_die_one_after_the_other(tmp_path):
    done = job(tmp_path, LOOP, {3: 5, 0: 15})
    workers = require_true_states(done, [1, 2], [4] * 5 + [3] * 10 + [2] * (STEPS - 15))
    assert all(each["plan"] >= 3 for each in workers.values())


@pytest.mark.long
def test_two_die_at_once(tmp_path):
    done = job(tmp_path, LOOP, {1: 7, 2: 7})
    require_true_states(done, [0, 3], [4] * 7 + [2] * (STEPS - 7))


def test_below_the_least_number_the_job_ends_and_says_so(tmp_path):
    done = job(tmp_path, LOOP, {1: 7, 2: 7, 3: 7})
    assert done.code != 0 and told(done) == {} and "1 workers are left" in done.err, done.err


def test_a_worker_that_dies_while_the_others_join_starts_the_next_round(tmp_path):
    done = job(tmp_path, "state.register_reset_callbacks([lambda: die() if me == 1 else None])\n" + LOOP, {3: 10})
    require_true_states(done, [0, 2], [4] * 10 + [2] * (STEPS - 10))


@pytest.mark.long
def test_steps_behind_the_last_commit_are_taken_again(tmp_path):
    text = LOOP.replace("        state.commit()\n", "        if state.step % 6 == 0:\n            state.commit()\n")
    done = job(tmp_path, text, {2: 10})
    require_true_states(done, [0, 1, 3], [4] * 6 + [3] * (STEPS - 6))


@pytest.mark.long
def test_an_error_that_one_rank_raises_starts_a_round_of_all(tmp_path):
    text = LOOP.replace("        one_step(state)\n", """
        if state.step == 9 and me == 1 and len(calls) == 1:
            raise hvd.HorovodInternalError("as a program raises it")
        one_step(state)
""")
    done = job(tmp_path, text)
    workers = require_true_states(done, [0, 1, 2, 3], [4] * STEPS)
    assert all(each["calls"] == 2 for each in workers.values())


def test_a_loop_of_the_programs_own_leaves_and_joins_by_shutdown_and_init(tmp_path):
    text = LOOP.replace("@hvd.elastic.run\n", """
import functools

def reset():
    hvd.shutdown()
    hvd.init()

@functools.partial(hvd.elastic.run_fn, reset=reset)
""")
    done = job(tmp_path, text, {2: 10})
    require_true_states(done, [0, 1, 3], [4] * 10 + [3] * (STEPS - 10))


@pytest.mark.long
def test_process_sets_of_init_go_on_if_their_members_do(tmp_path):
    text = """
pair, others = hvd.ProcessSet([0, 2]), hvd.ProcessSet([1, 3])
hvd.shutdown()
hvd.init(process_sets=[pair, others])
added = hvd.add_process_set([0, 1, 2])
""" + LOOP + """
if pair.included():
    assert pair.ranks == [0, 1] and hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=pair).item() == 2
assert added.process_set_id is None
if me == 3:
    try:
        hvd.allreduce(torch.ones(1), process_set=others)
    except ValueError as error:
        print(f"refused: {error}\\n", end="", flush=True)  # in one write: all workers share the pipe
hvd.barrier()
"""
    done = job(tmp_path, text, {1: 10})
    require_true_states(done, [0, 2, 3], [4] * 10 + [3] * (STEPS - 10))
    assert "refused: " in done.out and "worker 1" in done.out.partition("refused: ")[2], done.out


@pytest.mark.long
def test_process_sets_of_init_have_their_ranks_in_a_new_worker_too(run_script):
    text = TRAINING.replace("hvd.init()", "pair, others = hvd.ProcessSet([0, 2]), hvd.ProcessSet([1, 2])\nhvd.init(process_sets=[pair, others])")
    text += f"STEPS, VICTIMS = {STEPS}, {{1: 10}}\n" + LOOP + """
for _ in range(2):
    assert pair.ranks == [0, 1] and others.ranks == [1], (pair, others)
    assert pair.included() == (me in (0, 2))
    if pair.included():
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=pair).item() == 2
    hvd.barrier()
    rueda.elastic.reset()
"""
    done = run_script(text, "--min-np", "3", ranks=3)
    assert done.code == 0, done.out + done.err
    assert set(told(done)) == {0, 2, 3}, done.out + done.err


def test_models_that_differ_are_told_by_the_parameter_and_not_tried_again(tmp_path):
    text = "model.extra = torch.nn.Linear(2 + hvd.rank(), 1)\nstate.model = model\n" + LOOP
    done = job(tmp_path, text)
    assert done.code != 0 and "extra.weight" in done.err and "MismatchError" in done.err, done.err


def test_in_a_job_that_is_not_elastic_the_function_runs_and_a_failure_says_what_to_do(run_script):
    text = """
state = hvd.elastic.TorchState(batch=0)
@hvd.elastic.run
def train(state):
    state.batch += hvd.allreduce(torch.ones(1), op=hvd.Sum).item()
    state.commit()
    if state.batch == 2:
        print("once", flush=True)
        train.fails and fail()
def fail():
    raise hvd.HorovodInternalError("lost")
train.fails = False
hvd.init()
train(state)
state.batch, train.fails = 0, True
train(state)
"""
    done = run_script(text)
    assert done.code != 0 and done.lines(0) == done.lines(1) == ["once", "once"], done.err
    assert "this job is not elastic" in done.err and "hvdrun --min-np" in done.err and "CollectiveError: lost" in done.err


@pytest.mark.parametrize("callbacks, afterwards", [
    pytest.param("", {0: "of worker 0", 2: "of worker 2"}, id="nothing is sent"),
    pytest.param("state.register_reset_callbacks([lambda: None])", {0: "of worker 0", 2: "of worker 0"}, id="the state is sent"),
])  # fmt: skip
def test_plain_values_that_differ_stay_different_after_a_death_unless_the_state_is_sent(tmp_path, callbacks, afterwards):
    done = job(tmp_path, f"""
import json, os, signal
from rueda import elastic
hvd.init()
me = elastic.worker_id()
state = elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0, own=None)
{callbacks}

@elastic.run
def train(state):
    state.own = state.own or f"of worker {{me}}"
    while state.step < 6:
        if (me, state.step) == (1, 3):
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.barrier()
        state.step += 1
        state.commit()

train(state)
os.write(1, json.dumps(dict(worker=me, own=state.own)).encode() + b"\\n")
""", ranks=3, training="", imports=_jobs.NUMPY)
    assert done.code == 0, done.out + done.err
    assert {worker: line["own"] for worker, line in told(done).items()} == afterwards, done.out + done.err


# Rank 1 saves its fifth step, and hears then that rank 0 has left before it could do so.
ONE_COMMITS = """
from rueda import elastic

hvd.init()
begun = []

@elastic.run
def train(state):
    begun.append(state.step)
    while state.step < 8:
        hvd.allreduce(numpy.ones(1))
        state.step += 1
        if state.step == 5 and len(begun) == 1 and hvd.rank() == 0:
            raise hvd.HorovodInternalError("before the commit")
        state.commit()
    print(f"{begun}\\n", end="", flush=True)

train(elastic.ObjectState(SEND, hvd.rank, step=0))
"""


@pytest.mark.parametrize("send", ["hvd.broadcast_object", "lambda value: hvd.broadcast_object(value)"])
def test_what_one_rank_alone_has_committed_is_not_lost(run_script, send):
    done = run_script(ONE_COMMITS.replace("SEND", send), "--min-np", "2", imports=_jobs.NUMPY)
    assert done.code == 0, done.out + done.err
    assert done.lines(0) == done.lines(1) == ["[0, 5]"], done.out


def test_a_worker_that_exits_with_0_in_the_middle_of_its_work_is_named_and_the_others_go_on(run_script):
    done = run_script("""
from rueda import elastic

hvd.init()

@elastic.run
def train(state):
    while state.step < 6:
        if elastic.worker_id() == 1 and state.step == 3:
            raise SystemExit(0)
        hvd.allreduce(numpy.ones(1))
        state.step += 1
        state.commit()
    print(f"ends with {hvd.size()} ranks\\n", end="", flush=True)

train(elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0))
""", "--min-np", "1", ranks=3, imports=_jobs.NUMPY)  # fmt: skip
    assert done.code == 0, done.out + done.err
    assert done.lines(0) == done.lines(2) == ["ends with 2 ranks"] and done.lines(1) == []
    assert re.search(r"hvdrun: worker 1 \(host localhost, pid \d+\) ended with code 0 in plan 1, and the others went on without it", done.err), done.err
