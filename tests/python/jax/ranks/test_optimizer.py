"""The optimizer trains as one process with all data would."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rueda.jax as hvd

START = {"dense": {"kernel": jnp.full((4, 8), 0.1), "bias": jnp.zeros(8)}, "out": jnp.full((8, 1), 0.1)}


def data(rank):
    x = np.random.default_rng(rank).normal(size=(16, 4)).astype("float32")
    return x, x.sum(1, keepdims=True)


def loss(p, x, y):
    return jnp.mean((jnp.tanh(x @ p["dense"]["kernel"] + p["dense"]["bias"]) @ p["out"] - y) ** 2)


def train(optimizer, batches):
    @jax.jit
    def step(p, state, x, y):
        updates, state = optimizer.update(jax.grad(loss)(p, x, y), state, p)
        return optax.apply_updates(p, updates), state

    p, state = START, optimizer.init(START)
    for x, y in batches:
        p, state = step(p, state, x, y)
    return p


def close(a, b):
    return all(np.allclose(x, y, atol=1e-5) for x, y in zip(jax.tree_util.tree_leaves(a), jax.tree_util.tree_leaves(b)))


def test_it_updates_with_the_mean_of_all_ranks():
    everything = tuple(np.concatenate(part) for part in zip(*[data(rank) for rank in range(hvd.size())]))
    alone = train(optax.adam(0.01), [everything] * 5)
    assert close(train(hvd.DistributedOptimizer(optax.adam(0.01)), [data(hvd.rank())] * 5), alone)


def test_it_reduces_only_in_every_second_call():
    before = hvd.stats()["tensors"]["finished"]
    optimizer = hvd.DistributedOptimizer(optax.sgd(0.1), backward_passes_per_step=2, name="second")
    everything = tuple(np.concatenate(part) for part in zip(*[data(rank) for rank in range(hvd.size())]))
    trained = train(optimizer, [data(hvd.rank())] * 4)
    assert close(trained, train(optax.sgd(0.1), [everything] * 2))
    assert hvd.stats()["tensors"]["finished"] - before == 2 * 3


def test_wrong_optimizers_are_refused():
    with pytest.raises(ValueError, match="a int is not an optimizer of optax"):
        hvd.DistributedOptimizer(3)
    with pytest.raises(ValueError, match="backward_passes_per_step is 0"):
        hvd.DistributedOptimizer(optax.sgd(0.1), backward_passes_per_step=0)
