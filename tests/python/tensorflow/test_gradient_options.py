"""What tapes may be told: local layers, groups, compressors, Adasum; and ranks that have joined."""

import numpy as np
import pytest
import tensorflow as tf

import rueda.tensorflow as hvd


def scale():
    return float(hvd.rank() + 1)


def mean():
    return (hvd.size() + 1) / 2


def gradients_of(weights, **options):
    """The gradients of a loss that has, in each weight's place, as its gradient this rank's number times the weight's."""

    def step():
        with tf.GradientTape() as tape:
            loss = scale() * tf.add_n([tf.reduce_sum(weight) * (number + 1) for number, weight in enumerate(weights)])
        return hvd.DistributedGradientTape(tape, **options).gradient(loss, weights)

    return [step(), tf.function(step)()]


def weights_of(*shapes):
    return [tf.Variable(tf.ones(shape), name=f"w{number}") for number, shape in enumerate(shapes)]


@pytest.mark.parametrize("scaled", [True, False])
def test_a_partial_tape_leaves_local_layers_alone(scaled):
    shared, local = tf.keras.layers.Dense(1, use_bias=False), tf.keras.layers.Dense(1, use_bias=False)
    x = tf.ones([1, 2])
    shared.build((1, 2))
    local.build((1, 2))

    def step():
        tape = tf.GradientTape()
        with tape:
            loss = scale() * tf.reduce_sum(shared(x) + local(x))
        tape = hvd.PartialDistributedGradientTape(tape, local_layers=[local], scale_local_gradients=scaled)
        kernels = [shared.trainable_variables[0], local.trainable_variables[0]]
        return tape.gradient(loss, [getattr(kernel, "value", kernel) if not isinstance(kernel, tf.Variable) else kernel for kernel in kernels])

    for run in (step, tf.function(step)):
        of_shared, of_local = run()
        np.testing.assert_allclose(of_shared, np.full([2, 1], mean()))
        np.testing.assert_allclose(of_local, np.full([2, 1], scale() / (hvd.size() if scaled else 1)), rtol=1e-6)
    with pytest.raises(ValueError, match="local_layers has a int; give Keras layers"):
        hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers=3)


def test_groups_may_be_lists_of_variables_or_a_number():
    weights = weights_of([2], [3], [4], [1])
    expected = [np.full(weight.shape, mean() * (number + 1)) for number, weight in enumerate(weights)]
    for groups in ([[weights[3], weights[0]]], [weights[:2], weights[2:]], [], 2, 9):
        for found in gradients_of(weights, groups=groups):
            for got, wanted in zip(found, expected):
                np.testing.assert_allclose(got, wanted)
    for groups, says in (([[weights[0]], [weights[0]]], "listed twice"), ("all", "list of lists"), (-1, "num_groups=-1")):
        with pytest.raises(ValueError, match=says):
            gradients_of(weights, groups=groups)


class Halved:
    """A compressor of the user's: it sends half of each number."""

    @staticmethod
    def compress(tensor):
        return tensor / 2, tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tf.cast(tensor * 2, ctx)


@pytest.mark.parametrize("compression, exact", [(hvd.Compression.bf16, False), (hvd.Compression.fp16, False), (Halved, True), (Halved(), True)],
                         ids=["bf16", "fp16", "a class", "an object"])  # fmt: skip
def test_compressed_gradients_have_their_dtype_and_their_mean(compression, exact):
    weights = weights_of([3], [2, 2])
    for found in gradients_of(weights, compression=compression):
        for number, got in enumerate(found):
            assert got.dtype == tf.float32
            np.testing.assert_allclose(got, np.full(got.shape, mean() * (number + 1)), rtol=0 if exact else 1e-2)
    large = tf.fill([2], 1e6)
    assert np.isinf(hvd.allreduce(large, compression=hvd.Compression.fp16)).all(), "beyond 65,504, as a cast to fp16 gives it"
    np.testing.assert_allclose(hvd.allreduce(large, compression=hvd.Compression.bf16), [1e6] * 2, rtol=1e-2)


def test_what_is_no_compressor_is_refused():
    with pytest.raises(ValueError, match="give Compression.none, Compression.fp16, Compression.bf16 or a class"):
        hvd.DistributedGradientTape(tf.GradientTape(), compression="fp16")


def test_adasum_adds_what_is_orthogonal_and_averages_what_is_parallel():
    if hvd.size() & (hvd.size() - 1):
        pytest.skip("Adasum takes a power of two ranks")
    own = np.zeros(hvd.size(), "float32")
    own[hvd.rank()] = 1.0
    np.testing.assert_allclose(hvd.allreduce(tf.constant(own), op=hvd.Adasum), np.ones(hvd.size()), rtol=1e-6)
    same = tf.constant([3.0, 4.0])
    np.testing.assert_allclose(hvd.allreduce(same, op=hvd.Adasum), same, rtol=1e-6)
    weight = tf.Variable(tf.ones(hvd.size()))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(weight * own)
    np.testing.assert_allclose(hvd.DistributedGradientTape(tape, op=hvd.Adasum).gradient(loss, weight), np.ones(hvd.size()), rtol=1e-6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eagerly", "in a function"])
def test_ranks_with_less_data_join_and_count_as_zeros(compiled):
    def step(x):
        return hvd.allreduce(x, op=hvd.Sum, name="uneven")

    reduce, found = tf.function(step) if compiled else step, []
    for _ in range(hvd.rank() + 1):  # rank r has r + 1 batches
        found.append(float(reduce(tf.constant([scale()]))[0]))
    last = hvd.join()
    assert found == [sum(rank + 1.0 for rank in range(batch, hvd.size())) for batch in range(hvd.rank() + 1)]
    assert int(last) == hvd.size() - 1
    np.testing.assert_allclose(hvd.allreduce(tf.ones(1), op=hvd.Sum), [hvd.size()])
