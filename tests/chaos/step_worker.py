"""A worker as worker.py, but with PyTorch and step_mode=True: it never commits, and says after each step that its values belong
to it. No step that a survivor has finished may be lost.
"""

import os
import signal

import torch
import training
from telling import tell

import rueda.torch as hvd
from rueda import elastic


def seen(state):
    """What a replay needs to compare the state, and the state's own answer."""
    momentum = optimizer.state[weights].get("momentum_buffer", torch.zeros_like(weights))
    digest = training.digest(*(each.detach().numpy().tobytes() for each in (weights, momentum)))
    return {"step": state.step, "history": state.history, "digest": digest}


def one_step(state):
    """Takes a step. Returns whether any rank has seen the file `stop`."""
    optimizer.zero_grad()
    (weights * torch.from_numpy(training.gradient(state.step, hvd.rank()).astype("float64"))).sum().backward()
    stop = hvd.allreduce(torch.tensor([float(os.path.exists("stop"))]), op=hvd.Sum, name="stop")
    optimizer.step()
    state.step += 1
    state.history = training.lengthened(state.history, hvd.size())
    state.check_host_updates()
    return stop.item() > 0


@elastic.run
def train(state):
    """Trains until told to stop."""
    plan, told = elastic.membership().plan, False
    tell("plan", plan=plan, rank=hvd.rank(), size=hvd.size(), **seen(state))
    try:
        while not one_step(state):
            if not told:
                tell("step", plan=plan)
                told = True
    except (elastic.HorovodInternalError, elastic.HostsUpdatedInterrupt) as error:
        # The steps that this rank has finished count as committed steps do.
        tell("left", plan=plan, planned=isinstance(error, elastic.HostsUpdatedInterrupt), committed=state.step, why=str(error))
        raise


signal.signal(signal.SIGUSR2, lambda *_: os._exit(3))
torch.set_num_threads(1)
tell("ready")
hvd.init()
model = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(training.PARAMETERS, dtype=torch.float64))])
weights = model[0]
optimizer = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.5)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Sum)
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step_mode=True, step=0, history=[])
train(state)
tell("done", rank=hvd.rank(), size=hvd.size(), **seen(state))
