"""Warm-up callbacks: a new worker takes steps of its own while it waits outside, and nothing is left of them once it has joined."""

import re

import pytest
from conftest import _jobs

# Worker 1 dies in its third step, and a new one comes to its slot. Gradients of the job are ones, since all inputs are; those of a
# warm-up are sevens. The loop zeroes gradients behind each step, so that what a warm-up leaves would be added to the first ones.
JOB = """
import os, signal
from rueda import elastic

hvd.init()
me = elastic.worker_id()

def say(text):
    print(f"{text}\\n", end="", flush=True)

model = torch.nn.Linear(3, 1, bias=False)
torch.nn.init.zeros_(model.weight)
norm = hvd.SyncBatchNorm(3)
made = torch.optim.SGD(model.parameters(), lr=1, momentum=0.5)
optimizer = hvd.DistributedOptimizer(made, named_parameters=model.named_parameters(), gradient_as_buffer_view=VIEWS)

def take_steps():
    where = elastic.membership()
    assert where.waits and not where.holds_state, where
    for _ in range(2):
        optimizer.zero_grad()
        model(norm(torch.rand(4, 3)).detach() * 0 + 7).sum().backward()
        optimizer.step()
    state.step += 1000
    assert model.weight.abs().sum() > 0 and optimizer.state, optimizer.state
    say("warms up")

def reduce():
    try:
        hvd.allreduce(torch.ones(1))
    except ValueError as error:
        assert "this process is a new worker of a running job" in str(error), error
        say("is refused")

@elastic.run
def train(state):
    assert all(each.grad is None or not each.grad.any() for each in model.parameters())
    while state.step < 8 or hvd.size() < 3:
        if me == 1 and state.step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        norm(torch.full((4, 3), float(state.step)) + torch.rand(4, 3))
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        assert model.weight.grad.eq(1).all(), model.weight.grad
        optimizer.zero_grad()
        state.step += 1
        ends = [hvd.allreduce(torch.cat([model.weight.detach().flatten(), norm.running_mean]), op=op) for op in (hvd.Min, hvd.Max)]
        assert torch.equal(*ends), ends
        state.commit()
    say(f"ends with {hvd.size()} ranks")

state = hvd.elastic.TorchState(model=model, norm=norm, optimizer=optimizer, step=0)
state.register_warm_up_callbacks([take_steps, reduce])
"""


@pytest.mark.parametrize("views", [False, True])
def test_a_new_worker_takes_steps_alone_before_it_joins_and_nothing_of_them_is_left(run_script, views):
    done = run_script(f"VIEWS = {views}\n" + JOB + "train(state)\n", "--min-np", "2", ranks=3, imports=_jobs.TORCH)
    assert done.code == 0, done.out + done.err
    assert done.lines(0) == done.lines(2) == ["ends with 3 ranks"]
    assert done.lines(3) == ["warms up", "is refused", "ends with 3 ranks"]


def test_a_new_worker_whose_warm_up_raises_fails_outside_by_name_and_another_one_comes(run_script):
    done = run_script("VIEWS = False\n" + JOB + """
def fail():
    if me == 3:
        raise LookupError("no batch to warm up with")

state.register_warm_up_callbacks([fail])
train(state)
""", "--min-np", "2", ranks=3, imports=_jobs.TORCH)  # fmt: skip
    assert done.code == 0, done.out + done.err
    assert done.lines(0) == done.lines(2) == ["ends with 3 ranks"] == done.lines(4)[2:]
    assert "LookupError: no batch to warm up with" in done.err
    assert "Warm-up callback 3 of 3, fail (" in done.err and "raised this while this new worker waited outside of the job." in done.err, done.err
    assert re.search(r"worker 3 \(host localhost, pid \d+\) failed: exited with code 1, before it was in a plan", done.err), done.err
