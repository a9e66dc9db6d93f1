"""What the gradients' hooks cost the thread that runs the backward pass: from autograd's call until each is enqueued.

    .venv/bin/hvdrun -np 2 .venv/bin/python benchmarks/hook_cost.py         # needs the package: pip install bindings/python
    ... hook_cost.py --gradients 500 --turns 200

Backward passes over as many small parameters take turns, one with a distributed optimizer's hooks and one with hooks that do
nothing; the cost is the difference. The reduced gradients are waited for outside the measured time. Each rank tells the median
over the turns, in microseconds a gradient:

    thread   processor time of the calling thread: what the calls cost
    wall     by the clock, and so with whatever else had the core meanwhile: coordinators and lanes, which on a machine of few
             cores have nowhere else to run
"""

import argparse
import statistics
import time

import torch

import rueda.torch as hvd


def parameters(count, elements):
    return [torch.nn.Parameter(torch.zeros(elements)) for _ in range(count)]


def backward(of):
    """Seconds of the thread's processor time, and by the clock."""
    losses = [parameter.sum() for parameter in of]
    wall, thread = time.perf_counter(), time.thread_time()
    torch.autograd.backward(losses)
    return time.thread_time() - thread, time.perf_counter() - wall


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gradients", type=int, default=500)
    parser.add_argument("--elements", type=int, default=256, help="of each gradient")
    parser.add_argument("--turns", type=int, default=200)
    options = parser.parse_args()
    hvd.init()
    torch.set_num_threads(1)
    plain, reduced = (parameters(options.gradients, options.elements) for _ in range(2))
    for parameter in plain:
        parameter.register_post_accumulate_grad_hook(lambda _: None)
    named = [(f"layer.{number}.weight", parameter) for number, parameter in enumerate(reduced)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(reduced, lr=0.1), named_parameters=named)
    costs = []
    for _ in range(options.turns + 3):
        hvd.barrier()
        without = backward(plain)
        hvd.barrier()
        with_hooks = backward(reduced)
        optimizer.synchronize()
        costs.append([1e6 * (b - a) / options.gradients for a, b in zip(without, with_hooks)])
    for name, values in zip(("thread", "wall"), zip(*costs[3:])):  # the first turns make what later ones use
        print(f"rank {hvd.rank()}: {name:6} {statistics.median(values):5.2f} us", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
