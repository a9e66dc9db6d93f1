"""A worker dies at a step of making the states equal, in Python: each step, as the first, the second and the last rank. The others go
on in the next plan with the last commit. One job goes through many deaths, until two workers are left."""

import json
import re

import pytest
from conftest import _jobs
from test_jobs import TRAINING, job, replayed

VICTIMS = (0, 1, -1)

# In each round, once all have committed, rank 0 raises what a broken job raises. All join the next plan, where a reset callback
# spoils the states of all but rank 0, and then they are made equal. The victim of CASES[done] dies at its step on this way.
ROUNDS = """
done, due = 0, None  # how many have died; the plan in which the next one does
state.register_reset_callbacks([lambda: spoil(hvd.rank())])

def tell(what, **more):
    os.write(1, json.dumps(dict(what=what, **more)).encode() + b"\\n")  # in one piece

def strike(step):
    if due == rueda.elastic.membership().plan and (CASES[done][0], CASES[done][1] % hvd.size()) == (step, hvd.rank()):
        tell("struck", case=CASES[done])
        os.kill(os.getpid(), signal.SIGKILL)

def at(step, owner, name, nth=1):
    "Has the victim of this step die as it makes the nth call of a function in a plan."
    function, calls = getattr(owner, name), {}
    def call(*words, **more):
        plan = rueda.elastic.membership().plan
        calls[plan] = calls.get(plan, 0) + 1
        if calls[plan] == nth:
            strike(step)
        return function(*words, **more)
    setattr(owner, name, call)

HOOKS

@rueda.elastic.run
def train(state):
    global done, due
    plan = rueda.elastic.membership().plan
    if due is not None and plan > due:
        done, due = done + 1, None
    tell("begins" if due is None else "begins before the death", plan=plan, rank=hvd.rank(), size=hvd.size(), step=state.step, sizes=state.sizes, digest=seen())
    one_step(state)
    state.commit()
    if done == len(CASES):
        return
    due = plan + 1
    if hvd.rank() == 0:
        raise rueda.elastic.HorovodInternalError("the next round, please")
    hvd.barrier()  # which rank 0 does not come to

train(state)
"""

COMMON = {
    "the standings": "agreement, 'allgather_object'",
    "reset callbacks": "type(state), 'on_reset'",
    "the digests": "parts, 'allgather_object'",
    "plain values": "type(state), '_received'",
    "saving": "type(state), 'save'",
    "it is saved": "agreement.Standing, 'committed'",
    "the end": "agreement.Standing, 'taken'",
}
VARIABLES = {
    **COMMON,
    "the first variable": "variables.arrays, 'broadcast_async'",
    "the second variable": "variables.arrays, 'broadcast_async', 2",
    "writing": "type(state), 'write'",
}
MODELS = {
    **COMMON,
    "the model": "handlers.ModelStateHandler, 'receive'",
    "the optimizer": "handlers.OptimizerStateHandler, 'receive'",
    "the optimizer's tensors": "torch_state, '_broadcast_all', 2",
    "saving the optimizer": "handlers.OptimizerStateHandler, 'save'",
}

OF_ARRAYS = """
import json, os, signal
import rueda.elastic
from rueda.elastic import agreement, parts, variables

class State(variables.VariablesState):
    def read(self):
        return list(self.arrays)

    def write(self, values):
        self.arrays = values

hvd.init()
State.arrays = [numpy.full(3, hvd.rank()), numpy.full(2, hvd.rank())]  # rank 0's zeros count
state = State(step=0, sizes=[])

def one_step(state):
    weights, sums = state.arrays
    weights = (weights * 7 + hvd.allreduce(numpy.array([hvd.rank() + 1]), op=hvd.Sum, name="step")[0]) % 1000003
    state.arrays = [weights, sums + weights[0]]
    state.step += 1
    state.sizes = [*state.sizes, hvd.size()]

def spoil(rank):
    state.step, state.arrays = state.step + rank, [array + rank for array in state.arrays]

def seen():
    return [array.tolist() for array in state.arrays]
"""

OF_MODELS = TRAINING[: TRAINING.index("def tell(")] + """
from rueda.elastic import agreement, parts
from rueda.torch import state as torch_state
from rueda.torch.elastic import handlers

def spoil(rank):
    state.step += rank
    with torch.no_grad():
        for each in (model.weight, *(optimizer.state[each]["momentum_buffer"] for each in model.parameters())):
            each.add_(rank)

def seen():
    return digest(model, optimizer) if state.step else None  # there is no momentum before
"""


def replayed_arrays(sizes):
    weight = total = 0
    for size in sizes:
        weight = (weight * 7 + size * (size + 1) // 2) % 1000003
        total += weight
    return [[weight] * 3, [total] * 2]


def die(folder, text, steps, cases, replay, imports):
    hooks = "\n".join(f"at({step!r}, {hook})" for step, hook in steps.items())
    ranks = len(cases) + 2
    done = job(folder, f"CASES = {cases!r}\n" + ROUNDS.replace("HOOKS", hooks), ranks=ranks, training=text, imports=imports)
    assert done.code == 0, done.out + done.err
    lines = [json.loads(line) for line in done.out.splitlines() if re.match(r"\{", line)]
    assert [tuple(line["case"]) for line in lines if line["what"] == "struck"] == cases, done.out + done.err
    for line in lines:
        if line["what"] != "struck" and line["step"] > 0:
            assert line["digest"] == replay(line["sizes"]) and line["step"] == len(line["sizes"]), line
    for size in range(2, ranks + 1):
        begins = [line for line in lines if line["what"] == "begins" and line["size"] == size]
        assert sorted(line["rank"] for line in begins) == list(range(size)), begins
        assert len({(line["plan"], line["step"], str(line["digest"]), str(line["sizes"])) for line in begins}) == 1, begins
        # One step in each plan that has begun, and each was committed.
        assert begins[0]["step"] == ranks - size and begins[0]["sizes"] == list(range(ranks, size, -1)), begins[0]


@pytest.mark.parametrize("steps", [list(VARIABLES)[:5], list(VARIABLES)[5:]], ids=["first half", "second half"])
def test_at_each_step_of_a_state_of_variables_as_each_rank(tmp_path, steps):
    die(tmp_path, OF_ARRAYS, VARIABLES, [(step, victim) for step in steps for victim in VICTIMS], replayed_arrays, _jobs.NUMPY)


@pytest.mark.parametrize("cases", [
    pytest.param([("the optimizer's tensors", 0)], id="one"),
    *(pytest.param([(step, victim) for step in MODELS], marks=pytest.mark.long, id=str(victim)) for victim in VICTIMS),
])  # fmt: skip
def test_at_each_step_of_a_state_of_models_as_each_rank(tmp_path, cases):
    die(tmp_path, OF_MODELS, MODELS, cases, replayed, _jobs.TORCH)
