"""A worker as worker.py, but with PyTorch and a model as large as ResNet-50: 161 tensors with 25.6 million parameters, 53 times
three buffers, and SGD with momentum. It commits each step, which copies 204 MB. Usage: large_worker.py [ELEMENTS [views]]; ELEMENTS: of
each tensor; views: gradients are views of buffers (gradient_as_buffer_view)

Each rank makes buffers of its own, as batch normalization does; at the beginning of a plan they are equal. Gradients are those of
training.py, in 32 bits, which hold them and their sums exactly. Digests are of every thousandth element, which cost no time and follow from the replay of these elements alone.
"""

import logging
import os
import resource
import statistics
import sys
import time

import numpy
import torch
import training
from telling import tell

import rueda.torch as hvd
from rueda import elastic

TENSORS, EACH = 161, 1000
NORMS, CHANNELS = 53, 501  # batch normalizations, and channels of each on average
ELEMENTS = int(sys.argv[1]) if len(sys.argv) > 1 else 158_760
VIEWS = sys.argv[2:] == ["views"]
REPLAYED = -(-ELEMENTS // EACH)  # of each tensor
WHOLE = ELEMENTS // (5 * EACH) * 5 * EACH  # elements of each tensor until the pattern of gradients breaks off
DIES_BEFORE = 3  # steps before the first "step" is told, so that usual times are known
LATER = 4  # steps of a later plan, after which the usual time of those behind the first is told


class Model(torch.nn.Module):
    """As many parameters and buffers as ResNet-50 has, and as many tensors."""

    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(ELEMENTS)) for _ in range(TENSORS)])
        for number in range(NORMS):
            self.register_buffer(f"mean{number}", torch.zeros(CHANNELS))
            self.register_buffer(f"variance{number}", torch.ones(CHANNELS))
            self.register_buffer(f"batches{number}", torch.tensor(0))


def sampled(tensors):
    """Every thousandth element as the bytes of float64, those of all tensors after each other."""
    return torch.cat([each.detach().flatten()[::EACH] for each in tensors]).to(torch.float64).numpy().tobytes()


def seen(state):
    """What a replay needs to compare the state, and the state's own answer."""
    parts = list(model.parts)
    momentum = [optimizer.state[each].get("momentum_buffer", torch.zeros(ELEMENTS)) for each in parts]
    return {"step": state.step, "history": state.history, "digest": training.digest(sampled(parts), sampled(momentum))}


def require_equal_buffers():
    """Raises RuntimeError unless all ranks have the same buffers."""
    own = torch.cat([each.flatten().double() for each in model.buffers()])
    ends = [hvd.allreduce(own, op=op, name=op_name) for op, op_name in ((hvd.Min, "least buffers"), (hvd.Max, "greatest buffers"))]
    if not torch.equal(*ends):
        raise RuntimeError("the ranks have different buffers at the beginning of a plan")


def make_gradients(step):
    """Runs the forward and the backward pass of a step. The replay's positions are those of sampled(), in its order. A gradient depends on
    the remainder by five alone."""
    values = training.gradient(step, hvd.rank(), numpy.arange(5)).astype(numpy.float32)
    for number, row in enumerate(inputs):
        pattern = numpy.repeat(values[(numpy.arange(5) + number * REPLAYED) % 5], EACH)
        row[:WHOLE].reshape(-1, pattern.size)[:] = pattern
        row[WHOLE:] = pattern[: ELEMENTS - WHOLE]
    optimizer.zero_grad()
    sum((part * gradient).sum() for part, gradient in zip(model.parts, torch.from_numpy(inputs))).backward()


def warm_up():
    """Takes two steps of this worker alone, while it waits outside. The C library gives the gradients of the first one back to the kernel,
    and keeps those of later ones."""
    for step in range(2):
        make_gradients(step)
        optimizer.step()


def spent():
    """What may make a step long: this process' page faults and milliseconds in the kernel, and those that the machine's host took from
    all its cores."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/stat", encoding="ascii") as file:
        stolen = int(file.readline().split()[8])
    return {"faults": own.ru_minflt, "system": round(1e3 * own.ru_stime), "stolen": stolen * 1000 // os.sysconf("SC_CLK_TCK")}


def one_step(state):
    """Takes a step and commits it. Returns whether any rank has seen the file `stop`."""
    make_gradients(state.step)
    for each in model.buffers():
        each.fill_(100 * state.step + hvd.rank())
    stop = hvd.allreduce(torch.tensor([float(os.path.exists("stop"))]), op=hvd.Sum, name="stop")
    optimizer.step()
    state.step += 1
    state.history = training.lengthened(state.history, hvd.size())
    state.commit()
    return stop.item() > 0


@elastic.run
def train(state):
    """Trains until told to stop."""
    plan, committed, took, used = elastic.membership().plan, state.step, [], []
    began = time.monotonic_ns()
    require_equal_buffers()
    tell("plan", plan=plan, rank=hvd.rank(), size=hvd.size(), **seen(state))
    checked = time.monotonic_ns() - began
    try:
        while True:
            before, began = spent(), time.monotonic_ns()
            over = one_step(state)
            committed = state.step
            took.append(time.monotonic_ns() - began)
            used.append({name: value - before[name] for name, value in spent().items()})
            if len(took) == (DIES_BEFORE if plan == 1 else 1):
                tell("step", plan=plan)
            if plan > 1 and len(took) == LATER:
                tell("usual", plan=plan, usual=statistics.median(took[1:]), first=took[0], checked=checked, used=used)
            if over:
                return
    except (elastic.HorovodInternalError, elastic.HostsUpdatedInterrupt) as error:
        planned = isinstance(error, elastic.HostsUpdatedInterrupt)
        tell("left", plan=plan, planned=planned, committed=state.step if planned else committed, why=str(error),
             usual=statistics.median(took) if took else 0, took=took)  # fmt: skip
        raise


logging.basicConfig(level=logging.INFO)  # with what each worker does when a plan begins
torch.set_num_threads(1)
tell("ready")
hvd.init()
inputs = numpy.empty((TENSORS, ELEMENTS), numpy.float32)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.5)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Sum, gradient_as_buffer_view=VIEWS)
whole = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0, history=[])
whole.register_warm_up_callbacks([warm_up])
train(whole)
