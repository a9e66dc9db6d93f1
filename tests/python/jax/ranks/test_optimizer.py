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


def test_compressed_gradients_train_nearly_as_one_process_and_keep_their_dtype():
    everything = tuple(np.concatenate(part) for part in zip(*[data(rank) for rank in range(hvd.size())]))
    alone = train(optax.sgd(0.1), [everything] * 3)
    for number, compression in enumerate((hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16, InHalf)):
        trained = train(hvd.DistributedOptimizer(optax.sgd(0.1), f"way {number}", compression=compression), [data(hvd.rank())] * 3)
        for got, expected in zip(jax.tree_util.tree_leaves(trained), jax.tree_util.tree_leaves(alone)):
            assert got.dtype == jnp.float32 and np.allclose(got, expected, atol=1e-5 if number == 0 else 2e-2)


class InHalf:
    """A compressor of the user's."""

    seen = []

    @classmethod
    def compress(cls, array):
        cls.seen.append(array.shape)
        return array.astype("float16"), array.dtype

    @staticmethod
    def decompress(array, context):
        return array.astype(context)


def test_compressors_send_the_number_format_and_are_called_where_they_are_given():
    third = jnp.full(2, 1 / 3)
    for compression, dtype in ((hvd.Compression.fp16, "float16"), (hvd.Compression.bf16, "bfloat16"), (InHalf, "float16")):
        results = [hvd.allreduce(third, compression=compression), jax.jit(lambda x, c=compression: hvd.allreduce(x, compression=c))(third),
                   hvd.grouped_allreduce([third], compression=compression)[0],
                   hvd.allreduce_tree({"a": third}, compression=compression)["a"]]  # fmt: skip
        for result in results:
            assert result.dtype == jnp.float32 and result.tolist() == third.astype(dtype).astype("float32").tolist() != third.tolist()
    assert hvd.allreduce(jnp.arange(2), hvd.Sum, compression=hvd.Compression.fp16).dtype == jnp.int32
    assert InHalf.seen.count((2,)) == 4
    slope = jax.grad(lambda x: hvd.allreduce(x, hvd.Sum, compression=hvd.Compression.bf16).sum())(third)
    assert slope.dtype == jnp.float32 and slope.tolist() == [hvd.size()] * 2


def test_wrong_optimizers_are_refused():
    with pytest.raises(ValueError, match="compression=3: give Compression.none"):
        hvd.DistributedOptimizer(optax.sgd(0.1), compression=3)
    with pytest.raises(ValueError, match="a int is not an optimizer of optax"):
        hvd.DistributedOptimizer(3)
    with pytest.raises(ValueError, match="backward_passes_per_step is 0"):
        hvd.DistributedOptimizer(optax.sgd(0.1), backward_passes_per_step=0)
