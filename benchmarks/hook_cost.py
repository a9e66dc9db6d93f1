"""What the gradients' hooks cost the thread that runs the backward pass: from autograd's call until each is enqueued.

    .venv/bin/hvdrun -np 2 .venv/bin/python benchmarks/hook_cost.py         # needs the package: pip install bindings/python
    ... hook_cost.py --gradients 500 --turns 200

Backward passes over as many small parameters take turns, one with hooks that do nothing and one with each of these:

    looks    takes the gradient and its address, in Python: the floor under every hook
    reduces  a distributed optimizer's

The cost is the difference to nothing. The reduced gradients are waited for outside the measured time. Each rank tells the
median over the turns, and the least pass less the least with nothing, in microseconds a gradient:

    thread   processor time of the calling thread: what the calls cost
    wall     by the clock, and so with whatever else had the core meanwhile: coordinators and lanes, which on a machine of few
             cores have nowhere else to run
"""

import argparse
import statistics
import time

import torch

import rueda.torch as hvd


def hooked(options, hook):
    """Parameters that call it, if there is one."""
    parameters = [torch.nn.Parameter(torch.zeros(options.elements)) for _ in range(options.gradients)]
    for parameter in parameters if hook is not None else []:
        parameter.register_post_accumulate_grad_hook(hook)
    return parameters


def look(parameter):
    parameter.grad.data_ptr()


def backward(of):
    """Seconds of the thread's processor time, and by the clock."""
    losses = [parameter.sum() for parameter in of]
    wall, thread = time.perf_counter(), time.thread_time()
    torch.autograd.backward(losses)
    return time.thread_time() - thread, time.perf_counter() - wall


def tell(name, clock, with_hooks, without):
    """Both: microseconds a gradient, by turn."""
    median = statistics.median(a - b for a, b in zip(with_hooks, without))
    print(f"rank {hvd.rank()}: {name:8} {clock:6} median {median:5.2f} us, least {min(with_hooks) - min(without):5.2f} us", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gradients", type=int, default=500)
    parser.add_argument("--elements", type=int, default=256, help="of each gradient")
    parser.add_argument("--turns", type=int, default=200)
    options = parser.parse_args()
    hvd.init()
    torch.set_num_threads(1)
    kinds = {"nothing": hooked(options, lambda _: None), "looks": hooked(options, look), "reduces": hooked(options, None)}
    named = [(f"layer.{number}.weight", parameter) for number, parameter in enumerate(kinds["reduces"])]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(kinds["reduces"], lr=0.1), named_parameters=named)
    passes = {name: [] for name in kinds}
    for _ in range(options.turns + 3):
        for name, parameters in kinds.items():
            hvd.barrier()
            passes[name].append([1e6 * seconds / options.gradients for seconds in backward(parameters)])
        optimizer.synchronize()
    # The first turns make what later ones use.
    times = {name: dict(zip(("thread", "wall"), zip(*turns[3:]))) for name, turns in passes.items()}
    for name in ("looks", "reduces"):
        for clock in ("thread", "wall"):
            tell(name, clock, times[name][clock], times["nothing"][clock])
    hvd.shutdown()


if __name__ == "__main__":
    main()
