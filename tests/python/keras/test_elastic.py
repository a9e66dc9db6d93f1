"""States of elastic training with tf.keras and TensorFlow, and the callbacks that keep them, in a job that keeps its ranks."""

import numpy as np
import pytest
import tensorflow as tf

import rueda.tensorflow as hvd
import rueda.tensorflow.keras as of_keras


def made_here():
    """A model with an optimizer that has state, both different on each rank."""
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2), tf.keras.layers.BatchNormalization()])
    model.compile(optimizer=tf.keras.optimizers.Adam(0.1 * (hvd.rank() + 1)), loss="mse")
    model.fit(np.full((4, 3), 1.0 + hvd.rank()), np.ones((4, 2)), verbose=0)
    return model


def values(state):
    return [np.array(value) for value in state.read()]


def equal(ones, others):
    return len(ones) == len(others) and all(np.array_equal(one, other) for one, other in zip(ones, others))


@pytest.mark.short
@pytest.mark.parametrize("kind", [of_keras.elastic.KerasState, hvd.elastic.TensorFlowKerasState], ids=lambda kind: kind.__name__)
def test_a_model_and_its_optimizer_become_the_roots_and_go_back_to_the_last_commit(kind):
    state = kind(made_here(), batch=hvd.rank(), seen=[hvd.rank()])
    assert state.optimizer is state.model.optimizer and len(state.read()) > 12
    at_first = values(state)
    state.model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
    assert not equal(values(state), at_first)
    state.restore()
    assert equal(values(state), at_first) and state.batch == hvd.rank()
    state._standing.root = 1
    state.sync()
    assert (state.batch, state.seen) == (1, [1])
    for value in values(state):
        assert np.array_equal(hvd.broadcast_object(value, 1), value)
    synced = values(state)
    state.model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
    state.restore()
    assert equal(values(state), synced)


def test_variables_and_those_of_a_session():
    state = hvd.elastic.TensorFlowState([tf.Variable([1.0 + hvd.rank(), 2.0]), tf.Variable(hvd.rank())], step=hvd.rank())
    state.sync()
    assert [value.tolist() for value in values(state)] == [[1.0, 2.0], 0] and state.step == 0
    state.variables[0].assign([7.0, 7.0])
    state.restore()
    assert state.variables[0].numpy().tolist() == [1.0, 2.0]
    with tf.Graph().as_default():
        variable = tf.compat.v1.get_variable("v", initializer=float(hvd.rank()))
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            state = hvd.elastic.TensorFlowState(session=session)
            state._standing.root = 1
            state.sync()
            assert session.run(variable) == 1.0
            variable.load(5.0, session)
            state.restore()
            assert session.run(variable) == 1.0


def model_with(units):
    inputs = tf.keras.Input((3,))
    return tf.keras.Model(inputs, tf.keras.layers.Dense(units, name="second")(tf.keras.layers.Dense(2, name="first")(inputs)))


@pytest.mark.short
@pytest.mark.parametrize("make, name", [
    pytest.param(lambda: of_keras.elastic.KerasState(model_with(2 + (hvd.rank() == 1)), batch=hvd.rank()), "second/kernel", id="keras"),
    pytest.param(lambda: hvd.elastic.TensorFlowState([tf.Variable([1.0] * (2 + (hvd.rank() == 1)), name="named")], batch=hvd.rank()), "named", id="variables"),
])  # fmt: skip
def test_variables_of_other_shapes_are_told_by_their_names_on_all_ranks(make, name):
    state = make()
    with pytest.raises(hvd.MismatchError, match=rf"'[^']*{name}[^']*' is a float32 of shape \[2(, 2)?\] on rank.* and a float32 of shape \[(2, )?3\] on rank 1"):
        state.sync()
    assert state.batch == hvd.rank()
    hvd.barrier()


def test_a_commit_on_disk_of_another_model_is_refused_by_the_variable(tmp_path):
    kept = of_keras.elastic.KerasState(model_with(2), checkpoint=tmp_path)
    kept._checkpoints.write(1, 1, kept._kept())
    with pytest.raises(ValueError, match=r"its '[^']*second/kernel[^']*' has shape \[2, 2\], that of the state \[2, 3\]"):
        of_keras.elastic.KerasState(model_with(3), checkpoint=tmp_path)


def test_a_model_without_variables_is_refused():
    with pytest.raises(ValueError, match="the model has no variables yet; build it before its state is made"):
        of_keras.elastic.KerasState(tf.keras.Sequential([tf.keras.layers.Dense(2)]))


class Recorded:
    """What the callbacks need of a state."""

    def __init__(self, batch=0, epoch=0):
        self.batch, self.epoch, self.commits = batch, epoch, []

    def commit(self):
        self.commits.append((self.epoch, self.batch))


def test_the_callbacks_count_batches_and_epochs_and_commit():
    state = Recorded(epoch=5)
    elastic = of_keras.elastic
    callbacks = [elastic.UpdateBatchStateCallback(state), elastic.UpdateEpochStateCallback(state), elastic.CommitStateCallback(state, 2)]
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    model.fit(np.ones((10, 3)), np.ones(10), batch_size=2, epochs=2, verbose=0, callbacks=callbacks)
    # Five batches: after the second and the fourth, then at the end of the epoch; the countdown goes on over it.
    assert state.commits == [(5, 1), (5, 3), (6, 0), (6, 0), (6, 2), (6, 4), (7, 0)]
    model.fit(np.ones((4, 3)), np.ones(4), batch_size=2, epochs=1, verbose=0, callbacks=callbacks)
    assert state.commits[7:] == [(7, 1), (8, 0)]


def test_an_epoch_that_goes_on_from_a_batch_is_shorter():
    state = Recorded(batch=3)
    callback = of_keras.elastic.UpdateBatchStateCallback(state)
    callback.set_params({"steps": 10})
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    assert callback.params["steps"] == 7
    callback.on_batch_end(9)
    callback.on_epoch_end(0)
    callback.on_epoch_begin(1)
    assert callback.params["steps"] == 10 and state.batch == 0
