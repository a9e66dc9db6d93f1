"""A rank for scripts/chaos that trains with a framework until an operation fails. Usage: rank.py torch|ddp|tensorflow|jax [SEED]

It tells what chaos_rank.c tells: `pid N` once the job runs, and `failed NANOSECONDS SENTENCE` right after the error. About half
of the steps, as drawn from the seed, train; the others are collectives of the framework's own functions. What ranks give is a
function of rank and step alone, so that every parameter and result is known: `wrong WHAT` if one is not. SIGUSR2 has it exit
with code 3, and SIGRTMIN with 0.
"""

import os
import random
import signal
import sys
import time

import numpy

STEPS_BEFORE = 4
PERIOD = 64  # of the gradients, so that sums of single precision stay exact
KIND, SEED = sys.argv[1], int(sys.argv[2] if len(sys.argv) > 2 else 1)
WIDTH = 64 + SEED % 191


def mean_gradient(step, size):
    """The average of what ranks give: rank + step."""
    return (size - 1) / 2 + step


def hvd_collectives(hvd, make):
    """Functions of a step's number, each with its name, that run a collective and return its result and what it must be.
    make: of nested lists of numbers a tensor of single precision."""
    rank, size = hvd.rank(), hvd.size()

    def total(number):
        return float(sum(each + number for each in range(size)))

    def listed(result):
        return numpy.asarray(result[0] if isinstance(result, (tuple, list)) else result).tolist()

    def sums(number):
        return listed(hvd.allreduce(make([float(rank + number)] * WIDTH), op=hvd.Sum)), [total(number)] * WIDTH

    def group(number):
        found = hvd.grouped_allreduce([make([float(rank + number)] * 3), make([float(rank)] * WIDTH)], op=hvd.Sum)
        return [listed([each]) for each in found], [[total(number)] * 3, [total(0)] * WIDTH]

    def gather(number):
        counts = [2 if KIND == "jax" else each + 1 for each in range(size)]  # JAX's arrays have a shape before they have values
        rows = [[float(each + number)] * 2 for each in range(size) for _ in range(counts[each])]
        return listed(hvd.allgather(make([[float(rank + number)] * 2] * counts[rank]))), rows

    def broadcast(number):
        root = number % size
        return listed(hvd.broadcast(make([float(rank + number)] * WIDTH), root)), [float(root + number)] * WIDTH

    def scatter(number):
        return listed(hvd.reducescatter(make([[float(rank + number)] * 4] * size), op=hvd.Sum)), [[total(number)] * 4]

    def exchange(number):
        return listed(hvd.alltoall(make([float(rank + number)] * size))), [float(each + number) for each in range(size)]

    return [sums, group, gather, broadcast, scatter, exchange]


def torch_collectives(dist, torch):
    """The same with torch.distributed."""
    rank, size = dist.get_rank(), dist.get_world_size()

    def mine(number, *shape):
        return torch.full(shape, float(rank + number))

    def sums(number):
        found = mine(number, WIDTH)
        dist.all_reduce(found)
        return found.tolist(), [float(sum(each + number for each in range(size)))] * WIDTH

    def gather(number):
        found = [torch.zeros(WIDTH) for _ in range(size)]
        dist.all_gather(found, mine(number, WIDTH))
        return [each.tolist() for each in found], [[float(each + number)] * WIDTH for each in range(size)]

    def broadcast(number):
        found = mine(number, WIDTH)
        dist.broadcast(found, number % size)
        return found.tolist(), [float(number % size + number)] * WIDTH

    def scatter(number):
        found = torch.zeros(WIDTH)
        dist.reduce_scatter(found, list(mine(number, size * WIDTH).split(WIDTH)))
        return found.tolist(), [float(sum(each + number for each in range(size)))] * WIDTH

    def exchange(number):
        found = torch.zeros(size)
        dist.all_to_all_single(found, mine(number, size))
        return found.tolist(), [float(each + number) for each in range(size)]

    def messages(number):
        found = torch.zeros(WIDTH)
        ways = [dist.P2POp(dist.isend, mine(number, WIDTH), (rank + 1) % size), dist.P2POp(dist.irecv, found, (rank - 1) % size)]
        for work in dist.batch_isend_irecv(ways):
            work.wait()
        return found.tolist(), [float((rank - 1) % size + number)] * WIDTH

    return [sums, gather, broadcast, scatter, exchange, messages]


def torch_trainer():
    """rueda.torch's optimizer."""
    import torch

    import rueda.torch as hvd

    hvd.init()
    layers = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3)))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layers.parameters(), lr=1.0), layers.named_parameters())
    for parameter in layers.parameters():
        parameter.data.zero_()

    def step(number):
        optimizer.zero_grad()
        sum((parameter * (hvd.rank() + number)).sum() for parameter in layers.parameters()).backward()
        optimizer.step()
        return [float(parameter.data[0, 0]) for parameter in layers.parameters()]

    return hvd.size(), step, hvd_collectives(hvd, torch.tensor)


def ddp_trainer():
    """DistributedDataParallel over the backend "rueda"."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("rueda")
    model = torch.nn.Linear(WIDTH, 1, bias=False)
    model.weight.data.zero_()
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

    def step(number):
        optimizer.zero_grad()
        model(torch.full((1, WIDTH), float(dist.get_rank() + number))).sum().backward()
        optimizer.step()
        return [float(model.module.weight.data[0, 0])]

    return dist.get_world_size(), step, torch_collectives(dist, torch)


def tensorflow_trainer():
    """rueda.tensorflow's tape in a compiled step."""
    import tensorflow as tf

    import rueda.tensorflow as hvd

    hvd.init()
    weights = tf.Variable(tf.zeros([WIDTH]))

    @tf.function
    def train(number):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights * (tf.cast(hvd.rank(), tf.float32) + number))
        gradient = hvd.DistributedGradientTape(tape).gradient(loss, weights)
        weights.assign_sub(gradient)

    def step(number):
        train(tf.constant(float(number)))
        return [float(weights[0])]

    return hvd.size(), step, hvd_collectives(hvd, tf.constant)


def jax_trainer():
    """rueda.jax in a compiled step."""
    import jax
    import jax.numpy as jnp

    import rueda.jax as hvd

    hvd.init()
    rank, weights = hvd.rank(), [jnp.zeros(WIDTH)]

    @jax.jit
    def train(now, number):
        gradient = jax.grad(lambda values: jnp.sum(values * (rank + number)))(now)
        return now - hvd.allreduce(gradient, op=hvd.Average)

    def step(number):
        weights[0] = jax.block_until_ready(train(weights[0], float(number)))
        return [float(weights[0][0])]

    return hvd.size(), step, hvd_collectives(hvd, jnp.array)


def main():
    """Trains until an error comes."""
    for number, code in ((signal.SIGUSR2, 3), (signal.SIGRTMIN, 0)):
        signal.signal(number, lambda *_, code=code: os._exit(code))
    size, step, collectives = globals()[f"{KIND}_trainer"]()
    chance, number, expected = random.Random(SEED), 0, 0.0
    while True:
        drawn = chance.choice([None] * len(collectives) + collectives)
        try:
            if drawn is None:
                found, wanted = step(number % PERIOD), expected - mean_gradient(number % PERIOD, size)
                wanted = [wanted] * len(found)
            else:
                found, wanted = drawn(number % PERIOD)
        except Exception as error:
            when = time.monotonic_ns()
            text = " ".join(str(error).split())
            os.write(1, f"failed {when} {text}\n".encode())
            os._exit(1)
        if found != wanted:
            what = "training" if drawn is None else drawn.__name__
            os.write(1, f"wrong {KIND} {what} in step {number}: {str(found)[:200]}, not {str(wanted)[:200]}\n".encode())
        if drawn is None:
            expected = found[0]
        number += 1
        if number == STEPS_BEFORE:
            os.write(1, f"pid {os.getpid()}\n".encode())


main()
