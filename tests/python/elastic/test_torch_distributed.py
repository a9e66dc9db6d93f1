"""torch.distributed in an elastic job: each plan has a default group of its own, made where elastic.run calls the function."""

import re

# Worker 1 dies in its fourth step, and a new one comes to its slot, in plan 3.
JOB = """
import os, signal
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import rueda.elastic
from rueda import elastic

me = int(os.environ["RUEDA_WORKER_ID"])

def say(text):
    print(f"worker {me}: {text}\\n", end="", flush=True)

def make_group(name):
    store = dist.FileStore(os.path.abspath(name), hvd.size())
    dist.init_process_group("rueda", rank=hvd.rank(), world_size=hvd.size(), store=store)

def refused(why):
    try:
        make_group("too early")
    except ValueError as error:
        assert not dist.is_initialized()
        say(f"{why}: {error}")
    else:
        raise AssertionError("a group of a worker that waits was not refused")

@hvd.elastic.run
def train(state):
    plan = elastic.membership().plan
    make_group(f"group {plan}")
    try:
        model = DistributedDataParallel(state.model)
        while state.taken < 5:  # in plan 3
            if me == 1 and state.step == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            state.optimizer.zero_grad()
            (model(torch.ones(1, 1)) * (dist.get_rank() + 1)).sum().backward()
            state.optimizer.step()
            ranks = torch.ones(1)
            dist.all_reduce(ranks)
            assert ranks.item() == hvd.size() == dist.get_world_size(), ranks
            state.step, state.expected = state.step + 1, state.expected - (hvd.size() + 1) / 2
            state.taken += plan == 3
            if plan == 2 and state.step == 6 and hvd.rank() == 0:  # until the new worker is ready
                state._host_messages.put(state._host_messages.get())
            state.commit()
    finally:
        dist.destroy_process_group()
    assert state.model.weight.item() == state.expected, (state.model.weight, state.expected)
    say(f"ends in plan {plan} with {hvd.size()} ranks")

hvd.init()
if me > 2:
    refused("waits")
model = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.zeros_(model.weight)
train(hvd.elastic.TorchState(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), step=0, taken=0, expected=0.0))
"""


def test_each_plan_has_a_group_of_its_own_and_a_new_worker_gets_none_before(run_script):
    done = run_script(JOB, "--min-np", "2", ranks=3)
    assert done.code == 0, done.out + done.err
    lines = sorted(re.sub(r"^\[\d+\]<stdout>:", "", line) for line in done.out.splitlines() if "worker " in line)
    assert lines == [
        "worker 0: ends in plan 3 with 3 ranks",
        "worker 2: ends in plan 3 with 3 ranks",
        "worker 3: ends in plan 3 with 3 ranks",
        "worker 3: waits: init_process_group('rueda'): this process is a new worker of a running job; the others are in the middle of "
        "their training, and would not meet it here; call it within the function that elastic.run wraps, which gives a new worker the "
        "others' state",
    ]
