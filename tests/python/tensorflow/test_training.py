"""Gradient tapes, optimizers and batch normalization."""

import numpy as np
import pytest
import tensorflow as tf

import rueda.tensorflow as hvd


def batch():
    numbers = np.random.RandomState(hvd.rank())
    x = numbers.randn(8, 4).astype("float32")
    return x, x.sum(1, keepdims=True)


def whole_batch():
    parts = hvd.allgather_object(batch())
    return [np.concatenate(each) for each in zip(*parts)]


@pytest.mark.short
@pytest.mark.parametrize("compiled", [False, True], ids=["eagerly", "in a function"])
@pytest.mark.parametrize("options", [{}, {"num_groups": 2}, {"gradient_predivide_factor": 2.0}], ids=str)
def test_a_tape_gives_the_gradients_of_the_whole_batch(compiled, options):
    weights = [tf.Variable(tf.fill([4, 3], 0.1)), tf.Variable(tf.fill([3, 1], 0.2)), tf.Variable(1.0)]

    def loss_of(x, y):
        return tf.reduce_mean((tf.tanh(x @ weights[0]) @ weights[1] - y) ** 2)

    def gradients(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(x, y)
        return hvd.DistributedGradientTape(tape, **options).gradient(loss, weights)

    found = (tf.function(gradients) if compiled else gradients)(*map(tf.constant, batch()))
    with tf.GradientTape() as tape:
        loss = loss_of(*map(tf.constant, whole_batch()))
    for mine, expected in zip(found[:2], tape.gradient(loss, weights)):
        np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-6)
    assert found[2] is None


def test_local_sources_keep_their_gradients_divided_by_the_ranks():
    shared, local = tf.Variable(1.0), tf.Variable(1.0)
    with hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Sum) as tape:
        loss = (shared + local) * (hvd.rank() + 1)
    tape.register_local_source(local)
    gradients = tape.gradient(loss, [shared, local])
    assert float(gradients[0]) == sum(range(1, hvd.size() + 1))
    assert float(gradients[1]) == pytest.approx((hvd.rank() + 1) / hvd.size())


def test_sparse_gradients_stay_sparse_or_become_dense():
    table = tf.Variable(tf.ones([5, 2]))
    for as_dense in (False, True):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [hvd.rank()]))
        gradient = hvd.DistributedGradientTape(tape, sparse_as_dense=as_dense).gradient(loss, table)
        assert isinstance(gradient, tf.IndexedSlices) != as_dense
        expected = np.zeros([5, 2])
        expected[: hvd.size()] = 1 / hvd.size()
        np.testing.assert_allclose(tf.convert_to_tensor(gradient), expected)


def test_an_optimizer_of_v1_reduces_and_accumulates_in_a_session():
    for passes in (1, 2):
        with tf.Graph().as_default():
            variable = tf.compat.v1.get_variable("v", initializer=0.0)
            optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.0), backward_passes_per_step=passes, op=hvd.Sum)
            step = optimizer.minimize(variable * float(hvd.rank() + 1))
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                for number in range(1, 5):
                    session.run(step)
                    assert session.run(variable) == -sum(range(1, hvd.size() + 1)) * (number // passes * passes)


def test_batch_normalization_sees_the_batches_of_all_ranks():
    rows = batch()[0][: 4 + hvd.rank()]
    layer = hvd.SyncBatchNormalization(momentum=0.5)
    mine = layer(tf.constant(rows), training=True)
    whole = np.concatenate(hvd.allgather_object(rows))
    expected = (rows - whole.mean(0)) / np.sqrt(whole.var(0) + 1e-3)
    np.testing.assert_allclose(mine, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(layer.moving_mean, whole.mean(0) / 2, rtol=1e-3, atol=1e-5)
    with pytest.raises(ValueError, match="fused"):
        hvd.SyncBatchNormalization(fused=True)


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="needs op=Average"):
        hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Sum, gradient_predivide_factor=2.0)
    with pytest.raises(ValueError, match="give an optimizer"):
        hvd.DistributedOptimizer(object())
    with pytest.raises(ValueError, match="backward_passes_per_step=0"):
        hvd.DistributedOptimizer(tf.keras.optimizers.SGD(), backward_passes_per_step=0)
