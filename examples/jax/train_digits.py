"""Trains a small network on synthetic digits: every rank draws its own part of the data, and all end with the same
parameters.

    hvdrun -np 2 python examples/jax/train_digits.py
"""

import argparse
from typing import Any, Tuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import rueda.jax as hvd

CLASSES, PIXELS = 10, 64


def batch_of(generator: np.random.Generator, size: int) -> Tuple[np.ndarray, np.ndarray]:
    """Noisy images of ten patterns, the same patterns on all ranks."""
    patterns = np.random.default_rng(0).normal(size=(CLASSES, PIXELS))
    labels = generator.integers(0, CLASSES, size)
    return (patterns[labels] + generator.normal(scale=0.8, size=(size, PIXELS))).astype(np.float32), labels


def begin(seed: int, width: int) -> Any:
    """The parameters before training. Each rank draws its own; the root's are then broadcast."""
    first, second = jax.random.split(jax.random.PRNGKey(seed))
    return {
        "hidden": {"kernel": jax.random.normal(first, (PIXELS, width)) * 0.1, "bias": jnp.zeros(width)},
        "out": {"kernel": jax.random.normal(second, (width, CLASSES)) * 0.1, "bias": jnp.zeros(CLASSES)},
    }


def logits_of(parameters: Any, images: Any) -> Any:
    """The network: one hidden layer."""
    hidden = jnp.tanh(images @ parameters["hidden"]["kernel"] + parameters["hidden"]["bias"])
    return hidden @ parameters["out"]["kernel"] + parameters["out"]["bias"]


def loss_of(parameters: Any, images: Any, labels: Any) -> Any:
    """The mean cross entropy."""
    return optax.softmax_cross_entropy_with_integer_labels(logits_of(parameters, images), labels).mean()


def main() -> None:
    """Trains and prints."""
    parser = argparse.ArgumentParser(description="Trains a small network on synthetic digits with JAX and Rueda.")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64, help="of each rank")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--accumulate", type=int, default=1, help="batches for each update")
    arguments = parser.parse_args()

    hvd.init()
    generator = np.random.default_rng(1 + hvd.rank())
    optimizer = hvd.DistributedOptimizer(optax.adam(3e-3), backward_passes_per_step=arguments.accumulate)
    parameters = hvd.broadcast_tree(begin(hvd.rank(), arguments.width), root_rank=0)
    state = optimizer.init(parameters)

    @jax.jit
    def step(parameters: Any, state: Any, images: Any, labels: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(parameters, images, labels)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, hvd.allreduce(loss, name="loss")

    for number in range(arguments.steps):
        parameters, state, loss = step(parameters, state, *batch_of(generator, arguments.batch))
        if hvd.rank() == 0 and (number + 1) % 20 == 0:
            print(f"step {number + 1}: loss {float(loss):.4f}", flush=True)
    images, labels = batch_of(generator, 500)
    accuracy = hvd.allreduce(jnp.mean(jnp.argmax(logits_of(parameters, images), 1) == labels, dtype=jnp.float32))
    total = sum(float(leaf.sum()) for leaf in jax.tree_util.tree_leaves(parameters))
    print(f"rank {hvd.rank()}: accuracy {float(accuracy):.3f}, parameters {total:.6f}")


if __name__ == "__main__":
    main()
