"""A rank for scripts/chaos that trains with a framework until an operation fails. Usage: rank.py torch|ddp|tensorflow|jax [SEED]

It tells what chaos_rank.c tells: `pid N` once the job runs, and `failed NANOSECONDS SENTENCE` right after the error. The
gradients of a step are functions of the step alone, so that every parameter is known: `wrong WHAT` if one is not. SIGUSR2 has it
exit with code 3, and SIGRTMIN with 0.
"""

import os
import signal
import sys
import time

STEPS_BEFORE = 4
PERIOD = 64  # of the gradients, so that sums of single precision stay exact
KIND, WIDTH = sys.argv[1], 64 + int(sys.argv[2] if len(sys.argv) > 2 else 1) % 191


def mean_gradient(step, size):
    """The average of what ranks give: rank + step."""
    return (size - 1) / 2 + step


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

    return hvd.rank(), hvd.size(), step


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

    return dist.get_rank(), dist.get_world_size(), step


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

    return hvd.rank(), hvd.size(), step


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

    return rank, hvd.size(), step


def main():
    """Trains until an error comes."""
    for number, code in ((signal.SIGUSR2, 3), (signal.SIGRTMIN, 0)):
        signal.signal(number, lambda *_, code=code: os._exit(code))
    rank, size, step = globals()[f"{KIND}_trainer"]()
    number, expected = 0, 0.0
    while True:
        try:
            found = step(number % PERIOD)
        except Exception as error:
            when = time.monotonic_ns()
            text = " ".join(str(error).split())
            os.write(1, f"failed {when} {text}\n".encode())
            os._exit(1)
        expected -= mean_gradient(number % PERIOD, size)
        if found != [expected] * len(found):
            os.write(1, f"wrong {KIND} after step {number}: {found}, not {expected}\n".encode())
            expected = found[0]
        number += 1
        if number == STEPS_BEFORE:
            os.write(1, f"pid {os.getpid()}\n".encode())


main()
