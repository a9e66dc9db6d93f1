"""Gradients on a device are enqueued in batches by the hooks in C, behind the stream that is current at each, and Ctrl-C after an
enqueue loses no memory that the device still uses. Usage: hvdrun -np 2 device_hooks.py"""

import signal

import rueda.torch as hvd
import stand_in_device
import torch
from rueda.session import current
from rueda.torch import asynchronous
from rueda.torch.held import HeldGradients

MODULE = torch.get_device_module(stand_in_device.NAME)
TENSORS, COUNT = 100, 50  # more than a batch has
MEAN = 1.5


def make():
    weights = [torch.nn.Parameter(torch.ones(COUNT, device=stand_in_device.NAME)) for _ in range(TENSORS)]
    named = [(f"weight.{number}", weight) for number, weight in enumerate(weights)]
    return weights, hvd.DistributedOptimizer(torch.optim.SGD(weights, lr=1.0), named)


def backward(weights):
    torch.autograd.backward(weights, [torch.full_like(weight, hvd.rank() + 1.0) for weight in weights])


def check(weights):
    for number, weight in enumerate(weights):
        assert set(weight.grad.cpu().tolist()) == {MEAN}, (number, weight.grad.cpu())
        weight.grad = None


def check_batches(weights, optimizer):
    for step in range(3):
        backward(weights)
        handles = [member.handle for member in optimizer._reducer._members.values()]
        if step > 0:
            assert all(isinstance(handle, HeldGradients) for handle in handles[:-1]), handles
            assert len(set(map(id, handles))) < 10, "gradients go one by one"
        optimizer.synchronize()
        check(weights)


def check_streams(weights, optimizer):
    """Gradients that two streams write, and a third one reads."""
    first, second, reader = (MODULE.Stream() for _ in range(3))
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    MODULE.synchronize()
    for number, (weight, member) in enumerate(optimizer._reducer._members.items()):
        with MODULE.stream(first if number % 3 == 0 else second):
            weight.grad.fill_(hvd.rank() + 1.0)
            member(weight)
    with MODULE.stream(reader):
        optimizer.synchronize()
        copies = [weight.grad.clone() for weight in weights]
    reader.synchronize()
    assert all(set(copy.cpu().tolist()) == {MEAN} for copy in copies)
    check(weights)


def check_interrupt():
    """Ctrl-C comes when the library has the operation, and Python has no handle of it yet."""
    started = asynchronous._start

    def start(*arguments):
        started(*arguments)
        signal.raise_signal(signal.SIGINT)

    tensor = torch.ones(COUNT, device=stand_in_device.NAME)
    address = tensor.data_ptr()
    asynchronous._start = start
    try:
        hvd.allreduce_async_(tensor, name="interrupted")
        raise AssertionError("no KeyboardInterrupt")
    except KeyboardInterrupt:
        pass
    finally:
        asynchronous._start = started
    del tensor
    others = [torch.empty(COUNT, device=stand_in_device.NAME) for _ in range(200)]
    assert address not in [other.data_ptr() for other in others], "memory that the library has borrowed was given away"
    assert current().kept._unknown
    hvd.allreduce_(torch.ones(1, device=stand_in_device.NAME), name="after")


hvd.init()
stand_in_device.choose(hvd.rank())
for check_part in (check_batches, check_streams):
    check_part(*make())
check_interrupt()
print(f"{hvd.rank()}: ok\n", end="", flush=True)
hvd.shutdown()
