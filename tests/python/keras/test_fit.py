"""model.fit() with the optimizer and the callbacks."""

import numpy as np
import pytest
import tensorflow as tf

import rueda.keras
import rueda.tensorflow.keras as hvd

keras = tf.keras


def data(rank):
    numbers = np.random.RandomState(rank)
    x = numbers.randn(32, 4).astype("float32")
    return x, x.sum(1, keepdims=True)


def model(seed):
    keras.utils.set_random_seed(seed)
    layers = [keras.Input((4,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)]
    return keras.Sequential(layers)


def trained(network, optimizer, x, y, epochs=3, **options):
    network.compile(optimizer=optimizer, loss="mse")
    network.fit(x, y, batch_size=len(x), epochs=epochs, shuffle=False, verbose=0, **options)
    return network


@pytest.mark.short
@pytest.mark.parametrize("binding", [hvd, rueda.keras], ids=["rueda.tensorflow.keras", "rueda.keras"])
def test_ranks_train_as_one_process_on_all_the_data(binding):
    callbacks = [binding.callbacks.BroadcastGlobalVariablesCallback(0), binding.callbacks.MetricAverageCallback()]
    # The ranks begin alike: until the optimizer has variables, the broadcast comes behind the first step.
    mine = trained(model(1), binding.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.5)), *data(hvd.rank()), callbacks=callbacks)
    whole = [np.concatenate(each) for each in zip(*map(data, range(hvd.size())))]
    alone = trained(model(1), keras.optimizers.SGD(0.1, momentum=0.5), *whole)
    for got, expected in zip(mine.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5)


def test_ranks_that_begin_differently_end_alike():
    mine = trained(model(hvd.rank()), hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), *data(hvd.rank()),
                   callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])  # fmt: skip
    for weights in mine.get_weights():
        np.testing.assert_array_equal(weights, hvd.broadcast(weights, 0))


def test_a_step_comes_after_the_given_number_of_passes():
    network = model(1)
    before = network.get_weights()
    network.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), backward_passes_per_step=2), loss="mse")
    x, y = data(hvd.rank())
    network.train_on_batch(x, y)
    assert all(np.array_equal(old, new) for old, new in zip(before, network.get_weights()))
    network.train_on_batch(x, y)
    assert not any(np.array_equal(old, new) for old, new in zip(before, network.get_weights()))
    for weights in network.get_weights():
        np.testing.assert_array_equal(weights, hvd.broadcast(weights, 0))


def test_a_saved_model_loads_without_rueda_and_with_it(tmp_path):
    network = trained(model(1), hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), *data(hvd.rank()))
    path = str(tmp_path / "model.keras")
    network.save(path)
    plain = keras.models.load_model(path)
    assert type(plain.optimizer) is keras.optimizers.SGD
    loaded = hvd.load_model(path)
    assert type(loaded.optimizer) is not keras.optimizers.SGD and isinstance(loaded.optimizer, keras.optimizers.SGD)
    assert int(np.array(loaded.optimizer.iterations)) == 3
    with pytest.raises(ValueError, match="distributed already"):
        hvd.DistributedOptimizer(loaded.optimizer)
    x, y = data(hvd.rank())
    loaded.fit(x, y, verbose=0)
    for weights in loaded.get_weights():
        np.testing.assert_array_equal(weights, hvd.broadcast(weights, 0))


def test_metrics_are_means_and_learning_rates_follow_the_plan():
    seen = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            seen.append(float(np.array(self.model.optimizer.learning_rate)))

        def on_epoch_end(self, epoch, logs=None):
            assert logs["loss"] == pytest.approx(float(hvd.broadcast(logs["loss"], 0)))

    network = model(1)
    network.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9)), loss="mse")
    x, y = data(hvd.rank())
    plan = [hvd.callbacks.MetricAverageCallback(), hvd.callbacks.LearningRateWarmupCallback(0.1, warmup_epochs=1),
            hvd.callbacks.LearningRateScheduleCallback(0.1, lambda epoch: 0.5, start_epoch=1), Watch()]  # fmt: skip
    network.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=plan)
    steps = [0.1 * (1 + (batch + 1) / 4 * (hvd.size() - 1)) / hvd.size() for batch in range(4)]
    np.testing.assert_allclose(seen, [*steps, *[0.05] * 4], rtol=1e-5)


def test_values_and_checkpoints():
    assert float(hvd.allreduce(float(hvd.rank()), average=False)) == sum(range(hvd.size()))
    assert float(rueda.keras.allreduce(float(hvd.rank()))) == sum(range(hvd.size())) / hvd.size()
    assert hvd.allgather(np.ones([1, 2])).shape == (hvd.size(), 2)
    assert hvd.callbacks.BestModelCheckpoint(save_weights_only=True).save_best_only


def test_xla_is_turned_off_for_a_model():
    network = model(1)
    network.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), loss="mse", jit_compile=True)
    x, y = data(hvd.rank())
    network.fit(x, y, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    assert not network.jit_compile
