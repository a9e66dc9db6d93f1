"""Warm-up callbacks: a new worker takes steps of its own while it waits outside, and nothing is left of them once it has joined."""

import re

import pytest
from conftest import _jobs

# Worker 1 dies in its third step, and a new one comes to its slot. Gradients of the job are ones in each of two passes, since all
# inputs are; those of a warm-up are sevens. The loop zeroes gradients behind each step, so that what a warm-up leaves would be added to
# the first ones. Each model is a case of its own: one with a part that is frozen after it was wrapped, one with an optimizer that is not
# distributed, and one without an optimizer.
JOB = """
import os, signal
from rueda import elastic

hvd.init()
me = elastic.worker_id()

def say(text):
    print(f"{text}\\n", end="", flush=True)

def layer():
    made = torch.nn.Linear(3, 1, bias=False)
    torch.nn.init.zeros_(made.weight)
    return made

head, frozen, plain, beyond = layer(), layer(), layer(), layer()
model = torch.nn.ModuleList([head, frozen])
norm = hvd.SyncBatchNorm(3)
made = torch.optim.SGD(model.parameters(), lr=1, momentum=0.5)
optimizer = hvd.DistributedOptimizer(made, named_parameters=model.named_parameters(), backward_passes_per_step=2, gradient_as_buffer_view=VIEWS)
own = torch.optim.SGD(plain.parameters(), lr=1)
frozen.requires_grad_(False)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0, growth_interval=10**9)

def passes(value):
    for _ in range(2):
        scaler.scale(sum(each(torch.full((1, 3), value)).sum() for each in (head, plain, beyond))).backward()

def take_steps():
    where = elastic.membership()
    assert where.waits and not where.holds_state, where
    for inputs in (torch.rand(4, 3), torch.rand(1, 3)):
        optimizer.zero_grad()
        norm(inputs)
        passes(7.0)
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        with optimizer.skip_synchronize():
            optimizer.step()
        own.step()
        if len(inputs) > 1:
            scaler.update()  # and not behind the last step: such a warm-up is not whole, and leaves nothing either
    optimizer.synchronize()
    state.step += 1000
    assert head.weight.abs().sum() > 0 and optimizer.state, optimizer.state
    say("warms up")

def reduce():
    try:
        hvd.allreduce(torch.ones(1))
    except ValueError as error:
        assert "this process is a new worker of a running job" in str(error), error
        say("is refused")

def one_step(state):
    norm(torch.full((4, 3), float(state.step)) + torch.rand(4, 3))
    passes(1.0)
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    with optimizer.skip_synchronize():
        scaler.step(optimizer)
    scaler.update()
    own.step()
    for each, gradient in ((head, 2), (plain, 4), (beyond, 4)):
        assert each.weight.grad.eq(gradient).all(), each.weight.grad
        each.zero_grad()
    optimizer.zero_grad()

@elastic.run
def train(state):
    assert optimizer.state or state.step == 0
    for each in (head, frozen, plain, beyond):
        assert me < 3 or each.weight.grad is None or (each in (head, frozen) and not each.weight.grad.any()), each.weight.grad
    beyond.zero_grad()  # of a step that failed; the state drops those of its optimizers
    while state.step < 8 or hvd.size() < 3:
        if me == 1 and state.step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        one_step(state)
        state.step += 1
        here = torch.cat([head.weight.detach().flatten(), norm.running_mean, plain.weight.detach().flatten(), frozen.weight.flatten()])
        ends = [hvd.allreduce(here, op=op) for op in (hvd.Min, hvd.Max)]
        assert torch.equal(*ends) and not frozen.weight.any(), ends
        if state.step >= 8 and 1 < hvd.size() < 3 and hvd.rank() == 0:  # until the new worker is ready
            state._host_messages.put(state._host_messages.get())
        state.commit()
    say(f"ends with {hvd.size()} ranks")

state = hvd.elastic.TorchState(model=model, norm=norm, plain=plain, beyond=beyond, optimizer=optimizer, again=optimizer, own=own, scaler=scaler, step=0)
state.register_warm_up_callbacks([take_steps, reduce])
"""


@pytest.mark.parametrize("views", [pytest.param(False, marks=pytest.mark.long), True])
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
