"""Compares Rueda with what PyTorch brings along, and with Horovod where it is installed, in one run, and prints ratios.

    .venv/bin/python benchmarks/torch_compare.py                 # 2 ranks; needs the package: pip install bindings/python
    .venv/bin/python benchmarks/torch_compare.py --ranks 4 --rounds 7

What is measured, in milliseconds per step:

    gradients   a backward pass that does nothing but give the 161 gradients of ResNet-50 (102 MB), which are reduced
    resnet18    a training step of examples/torch/resnet18.py on random images, the synthetic benchmark's
    sharded     a training step of a perceptron; each rank holds a part of it

All peers but Horovod live in one job and take turns, so that each sees the same machine. "alone" is the same step without any
communication; "net" is what a peer takes beyond it. "views" have gradients in the tensors that are reduced, so that what copies
them there and back is not measured.
"""

import argparse
import importlib
import importlib.metadata
import json
import os
import pathlib
import shutil
import statistics
import sys

import torch
import torch.distributed as dist

ROOT = pathlib.Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "examples" / "torch"), str(ROOT / "benchmarks" / "framework_compare")]
from jobs import printed_by, resnet50_shapes, seconds_per_step


IMAGES = 8  # of a rank in a step of resnet18


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each peer; the median of them is shown")
    parser.add_argument("--seconds", type=float, default=0.3, help="least time of a turn")
    parser.add_argument("--shrink", type=int, default=1, help="divides the sizes of all tensors, to try the program")
    parser.add_argument("--only", choices=["gradients", "resnet18", "sharded"], help="one of the three")
    parser.add_argument("--json", metavar="FILE", help="where to write the milliseconds of each round")
    parser.add_argument("--rank-of", metavar="MODULE", help=argparse.SUPPRESS)  # this process is a rank of a job with this hvd
    return parser.parse_args()


class _Given(torch.autograd.Function):
    """A loss whose gradients cost nothing to make."""

    @staticmethod
    def forward(ctx, *parameters):
        ctx.shapes = [parameter.shape for parameter in parameters]
        return parameters[0].new_zeros(())

    @staticmethod
    def backward(ctx, gradient):
        return tuple(torch.zeros(1).expand(shape) for shape in ctx.shapes)


class Gradients(torch.nn.Module):
    """A module of the given parameters. Each is a function of its own, so that gradients come one after the other."""

    def __init__(self, shapes):
        super().__init__()
        self.parameters_ = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(shape)) for shape in shapes])

    def forward(self):
        return sum(_Given.apply(parameter) for parameter in self.parameters_)


def gradients(shrink):
    """A module and what makes its gradients."""
    model = Gradients([(max(1, shape[0] // shrink), *shape[1:]) for shape in resnet50_shapes()])
    return model, lambda wrapped: wrapped().backward()


def resnet18(shrink):
    from resnet18 import ResNet18

    torch.manual_seed(1)
    images, labels = torch.randn(IMAGES, 3, 32, 32), torch.randint(0, 10, (IMAGES,))
    model = ResNet18(width=max(2, 32 // shrink))
    return model, lambda wrapped: torch.nn.functional.cross_entropy(wrapped(images), labels).backward()


def perceptron(shrink):
    width = max(8, 1024 // shrink)
    torch.manual_seed(1)
    rows = torch.randn(16, width)
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(8)])
    return model, lambda wrapped: wrapped(rows).square().mean().backward()


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=1e-6)


class Peers:
    """Ways to take a step. Each method returns a function that takes one."""

    def __init__(self, hvd, shrink):
        self.hvd, self.shrink = hvd, shrink
        self.gloo = None
        if dist.is_initialized():
            self.gloo = dist.new_group(backend="gloo")

    def alone(self, workload):
        model, backward = workload(self.shrink)
        return self._stepping(model, backward, sgd(model))

    def optimizer(self, workload, **options):
        model, backward = workload(self.shrink)
        distributed = self.hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters(), **options)
        return self._stepping(model, backward, distributed)

    def buffered(self, workload):
        return self.optimizer(workload, gradient_as_buffer_view=True)

    def data_parallel(self, workload, group, **options):
        model, backward = workload(self.shrink)
        wrapped = torch.nn.parallel.DistributedDataParallel(model, process_group=group, **options)
        return self._stepping(wrapped, backward, sgd(model))

    def sharded(self, workload, group):
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard

        model, backward = workload(self.shrink)
        mesh = DeviceMesh.from_group(group or dist.group.WORLD, "cpu")
        for layer in model:
            fully_shard(layer, mesh=mesh)
        return self._stepping(fully_shard(model, mesh=mesh), backward, sgd(model))

    def _stepping(self, model, backward, optimizer):
        """Gradients add up in place, which spares every peer the making of new ones; the rates make no difference."""

        def step():
            backward(model)
            if hasattr(optimizer, "synchronize"):
                optimizer.synchronize()

        return step


def contests(peers, only):
    """The workloads, and for each its peers by name. Those of another hvd than ours are only its optimizer."""
    loads = [(kind, load) for kind, load in [("gradients", gradients), ("resnet18", resnet18)] if only in (None, kind)]
    if peers.gloo is None:
        return {kind: {"Horovod": peers.optimizer(load)} for kind, load in loads}
    reduced = {
        kind: {
            "alone": peers.alone(load),
            "Rueda, DistributedOptimizer": peers.optimizer(load),
            "Rueda, with views of buffers": peers.buffered(load),
            "DDP over rueda": peers.data_parallel(load, None),
            "DDP over rueda, views": peers.data_parallel(load, None, gradient_as_bucket_view=True),
            "DDP over gloo, views": peers.data_parallel(load, peers.gloo, gradient_as_bucket_view=True),
            "DDP over gloo": peers.data_parallel(load, peers.gloo),
        }
        for kind, load in loads
    }
    if only not in (None, "sharded"):
        return reduced
    sharded = {
        "alone": peers.alone(perceptron),
        "FSDP over rueda": peers.sharded(perceptron, None),
        "FSDP over gloo": peers.sharded(perceptron, peers.gloo),
    }
    return {**reduced, "sharded": sharded}


def run_rank(options):
    """Prints on rank 0 a line of JSON: workload, peer, and milliseconds of each round."""
    hvd = importlib.import_module(options.rank_of)
    hvd.init()
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // hvd.local_size()))
    if options.rank_of == "rueda.torch":
        dist.init_process_group("rueda")
    everything = contests(Peers(hvd, options.shrink), options.only)
    for peers in everything.values():
        for step in peers.values():
            step()
            step()

    def slowest(seconds):
        return float(hvd.allreduce(torch.tensor(seconds), op=hvd.Max, name="spent"))

    times = {kind: {name: [] for name in peers} for kind, peers in everything.items()}
    for _ in range(options.rounds):
        for kind, peers in everything.items():
            for name, step in peers.items():
                times[kind][name].append(1e3 * seconds_per_step(step, options.seconds, hvd.barrier, slowest))
    if hvd.rank() == 0:
        print("torch_compare", json.dumps(times), flush=True)
    hvd.shutdown()
    os._exit(0)  # Gloo's threads are joined with the GIL held, and may wait for it


def measured(launcher, module, options):
    """What a job of this launcher with this hvd measures."""
    command = [launcher, "-np", str(options.ranks), "-H", f"localhost:{options.ranks}", sys.executable, __file__, "--rank-of", module]
    command += ["--rounds", str(options.rounds), "--seconds", str(options.seconds), "--shrink", str(options.shrink)]
    command += ["--only", options.only] if options.only else []
    return printed_by(command, "torch_compare")


def show(times):
    """A table: medians, least and most, and how many times as long the last peer of PyTorch's takes."""
    for kind, peers in times.items():
        medians = {name: statistics.median(rounds) for name, rounds in peers.items()}
        alone = medians["alone"]
        theirs = next(value for name, value in medians.items() if name.endswith("gloo"))
        print(f"\n{kind:<32} {'ms':>9} {'least':>9} {'most':>9} {'net':>9} {'gloo is':>9} {'net':>9}")
        for name, value in medians.items():
            row = f"{name:<32} {value:>9.2f} {min(peers[name]):>9.2f} {max(peers[name]):>9.2f}"
            if name != "alone":
                row += f" {value - alone:>9.2f} {theirs / value:>8.2f}x"
                row += f" {(theirs - alone) / (value - alone):>8.2f}x" if value > alone else f" {'-':>9}"
            print(row)


def has_horovod():
    try:
        importlib.metadata.distribution("horovod")
    except importlib.metadata.PackageNotFoundError:
        return False
    return shutil.which("horovodrun") is not None


def main():
    options = parse()
    if options.rank_of:
        run_rank(options)
    from rueda.programs import path_of

    times = measured(path_of("hvdrun"), "rueda.torch", options)
    if has_horovod():
        for kind, peers in measured("horovodrun", "horovod.torch", options).items():
            times[kind].update(peers)
    print(f"{options.ranks} ranks, PyTorch {torch.__version__}, {len(os.sched_getaffinity(0))} cores, median of {options.rounds} rounds"
          f"{'' if has_horovod() else '; Horovod is not installed'}")  # fmt: skip
    show(times)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"ranks": options.ranks, "images": IMAGES * options.ranks, "pytorch": torch.__version__, "times": times}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
