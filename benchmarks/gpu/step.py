"""Times training steps on one GPU by rueda beside DDP over NCCL, which is PyTorch's own, and a step without either.

Usage: hvdrun -np 1 python step.py [ROUNDS]

Prints a line of JSON: for each way the median of the milliseconds of a step, its ratio to DDP's, and the medians of the
milliseconds that the program's thread spends in each part of a step. Ways take turns, step by step, so that all see the
same clocks. At size 1 nothing is exchanged, so what is measured is what the ways add."""

import json
import statistics
import sys
import time

import rueda.torch as hvd
import torch
import torch.distributed as dist

BATCH, WARM_UP = 64, 8


def network():
    """ResNet-50 if torchvision is there, else a net of convolutions with as many parameters."""
    torch.manual_seed(1)
    try:
        from torchvision.models import resnet50

        return "ResNet-50", resnet50().cuda(), (3, 224, 224)
    except ImportError:
        layers = [layer for _ in range(10) for layer in (torch.nn.Conv2d(512, 512, 3, padding=1), torch.nn.ReLU())]
        body = torch.nn.Sequential(torch.nn.Conv2d(3, 512, 3), *layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
        return "10 convolutions", torch.nn.Sequential(body, torch.nn.Linear(512, 1000)).cuda(), (3, 28, 28)


class Way:
    """A model of its own, and how it is stepped."""

    def __init__(self, name, wrap):
        self.name, self.times, self.parts = name, [], []
        self.network, model, self.shape = network()
        self.model, self.optimizer = wrap(model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))

    def step(self, images, labels):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        clock = [time.perf_counter()]
        self.optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(self.model(images), labels)
        clock.append(time.perf_counter())
        loss.backward()
        clock.append(time.perf_counter())
        self.optimizer.step()
        clock.append(time.perf_counter())
        end.record()
        end.synchronize()
        self.times.append(begin.elapsed_time(end))
        self.parts.append([1e3 * (after - before) for before, after in zip(clock, clock[1:])])

    def medians_of_parts(self):
        return dict(zip(("forward", "backward", "step"), map(statistics.median, zip(*self.parts[WARM_UP:]))))


def by_optimizer(model, optimizer):
    return model, hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def by_ddp(backend):
    def wrap(model, optimizer):
        group = dist.new_group(backend=backend)
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=[0], process_group=group), optimizer

    return wrap


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    torch.cuda.set_device(0)
    torch.backends.cudnn.benchmark = True
    dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
    hvd.init()
    ways = [Way("plain", lambda model, optimizer: (model, optimizer)), Way("DDP over nccl", by_ddp("nccl")),
            Way("DDP over rueda", by_ddp("rueda")), Way("rueda's optimizer", by_optimizer)]  # fmt: skip
    images, labels = torch.randn(BATCH, *ways[0].shape, device="cuda"), torch.randint(1000, (BATCH,), device="cuda")
    for number in range(WARM_UP + rounds):
        for turn in range(len(ways)):
            ways[(turn + number) % len(ways)].step(images, labels)
    medians = {way.name: statistics.median(way.times[WARM_UP:]) for way in ways}
    ratios = {name: median / medians["DDP over nccl"] for name, median in medians.items()}
    line = {"measured": "step", "network": ways[0].network, "batch": BATCH, "gpu": torch.cuda.get_device_name(),
            "milliseconds": medians, "ratio_to_ddp": ratios,
            "host_milliseconds": {way.name: way.medians_of_parts() for way in ways}}  # fmt: skip
    print(json.dumps(line) + "\n", end="", flush=True)
    dist.destroy_process_group()
    hvd.shutdown()


main()
