"""model.fit() of Keras 3 without TensorFlow: the optimizer, the callbacks and the collectives."""

import sys

import keras
import numpy as np
import pytest

import rueda.keras as hvd

ON_JAX = keras.backend.backend() == "jax"


def data(rank):
    numbers = np.random.RandomState(rank)
    x = numbers.randn(32, 4).astype("float32")
    return x, x.sum(1, keepdims=True)


def whole():
    return [np.concatenate(each) for each in zip(*map(data, range(hvd.size())))]


def model(seed):
    keras.utils.set_random_seed(seed)
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])


def trained(network, optimizer, x, y, epochs=3, **options):
    network.compile(optimizer=optimizer, loss="mse")
    network.fit(x, y, batch_size=len(x), epochs=epochs, shuffle=False, verbose=0, **options)
    return network


def require_equal(mine, alone, tolerance=1e-3):
    for got, expected in zip(mine.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance / 100)


def require_alike(network):
    for weights in network.get_weights():
        np.testing.assert_array_equal(weights, hvd.broadcast(weights, 0))


def test_the_backend_is_the_one_that_was_asked_for_and_tensorflow_stays_out():
    assert keras.backend.backend() in ("jax", "torch") and "tensorflow" not in sys.modules


def test_ranks_train_as_one_process_on_all_the_data():
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
    mine = trained(model(1), hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.5)), *data(hvd.rank()), callbacks=callbacks)
    require_equal(mine, trained(model(1), keras.optimizers.SGD(0.1, momentum=0.5), *whole()))


def test_ranks_that_begin_differently_end_alike():
    network = model(hvd.rank())
    trained(network, hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), *data(hvd.rank()),
            callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])  # fmt: skip
    require_alike(network)


def test_a_predivisor_gives_the_same_mean():
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), gradient_predivide_factor=2.0)
    require_equal(trained(model(1), optimizer, *data(hvd.rank())), trained(model(1), keras.optimizers.SGD(0.1), *whole()))


def test_keras_s_own_accumulation_and_rueda_s_take_their_passes():
    if ON_JAX:
        with pytest.raises(NotImplementedError, match="gradient_accumulation_steps"):
            hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), backward_passes_per_step=2)
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2))
    else:
        optimizer = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), backward_passes_per_step=2)
    network = model(1)
    before = network.get_weights()
    trained(network, optimizer, *data(hvd.rank()), epochs=1)
    assert all(np.array_equal(old, new) for old, new in zip(before, network.get_weights()))
    network.fit(*data(hvd.rank()), batch_size=32, epochs=1, verbose=0)
    assert not any(np.array_equal(old, new) for old, new in zip(before, network.get_weights()))
    require_alike(network)


def test_local_layers_keep_their_gradients_divided_by_the_ranks():
    network = model(1)
    shared, local = network.layers
    optimizer = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(1.0), local_layers=local)
    before = [layer.get_weights() for layer in (shared, local)]
    trained(network, optimizer, *data(hvd.rank()), epochs=1)
    alone = trained(model(1), keras.optimizers.SGD(1.0), *data(hvd.rank()), epochs=1)
    for old, new, own in zip(before[1], local.get_weights(), alone.layers[1].get_weights()):
        np.testing.assert_allclose(new - old, (own - old) / hvd.size(), rtol=1e-3, atol=1e-5)
    for weights in shared.get_weights():
        np.testing.assert_array_equal(weights, hvd.broadcast(weights, 0))


def test_a_loss_scale_goes_with_the_distributed_optimizer():
    inner = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    scaled = keras.optimizers.LossScaleOptimizer(inner, initial_scale=128.0)
    mine = trained(model(1), scaled, *data(hvd.rank()))
    require_equal(mine, trained(model(1), keras.optimizers.SGD(0.1), *whole()))


def test_all_ranks_skip_a_step_in_which_the_gradients_of_one_overflow():
    network, optimizer = model(1), keras.optimizers.LossScaleOptimizer(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)))
    before = network.get_weights()
    x, y = data(hvd.rank())
    trained(network, optimizer, x, y * 1e38 if hvd.rank() == 1 else y, epochs=1)
    for old, new in zip(before, network.get_weights()):
        np.testing.assert_array_equal(old, new)
    network.fit(x, y, batch_size=32, epochs=1, verbose=0)
    assert not any(np.array_equal(old, new) for old, new in zip(before, network.get_weights()))
    require_alike(network)


def test_a_saved_model_loads_without_rueda_and_with_it(tmp_path):
    network = trained(model(1), hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), *data(hvd.rank()))
    path = str(tmp_path / "model.keras")
    network.save(path)
    assert type(keras.models.load_model(path).optimizer) is type(keras.optimizers.SGD())  # on torch a class of its own
    loaded = hvd.load_model(path)
    assert type(loaded.optimizer) is not type(keras.optimizers.SGD()) and isinstance(loaded.optimizer, keras.optimizers.SGD)
    loaded.fit(*data(hvd.rank()), verbose=0)
    require_alike(loaded)


def test_metrics_are_means_and_learning_rates_follow_the_plan():
    rates = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            rates.append(float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)))

        def on_epoch_end(self, epoch, logs=None):
            assert logs["loss"] == pytest.approx(float(hvd.broadcast(logs["loss"], 0)))

    network = model(1)
    network.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), loss="mse")
    plan = [hvd.callbacks.MetricAverageCallback(), hvd.callbacks.LearningRateScheduleCallback(0.1, lambda epoch: 0.5, start_epoch=1), Watch()]
    network.fit(*data(hvd.rank()), batch_size=32, epochs=2, verbose=0, callbacks=plan)
    assert rates[1] == pytest.approx(0.05)


def test_the_collectives_take_numbers_and_arrays():
    total = sum(range(hvd.size()))
    assert float(hvd.allreduce(float(hvd.rank()))) == total / hvd.size()
    assert float(hvd.allreduce(float(hvd.rank()), average=False)) == total
    assert hvd.allgather(np.full([2], hvd.rank(), "float32")).tolist() == [float(rank) for rank in range(hvd.size()) for _ in range(2)]
    rows = hvd.allgather(np.full([1 + hvd.rank(), 2], hvd.rank(), "float32"), name="ragged")
    assert rows[:, 1].tolist() == [float(rank) for rank in range(hvd.size()) for _ in range(1 + rank)]
    if ON_JAX:
        import jax

        assert isinstance(rows, jax.Array)
    assert hvd.broadcast(np.full(2, hvd.rank(), "float32"), 1).tolist() == [1.0, 1.0]
    assert hvd.reducescatter(np.ones(hvd.size(), "float32")).tolist() == [1.0]


class InHalf:
    """A compressor of the user's."""

    @staticmethod
    def compress(tensor):
        half = tensor.astype("float16") if ON_JAX else tensor.half()
        return half, tensor.dtype

    @staticmethod
    def decompress(tensor, context):
        return tensor.astype(context) if ON_JAX else tensor.to(context)


def test_compressors_are_those_of_the_backend_and_are_used(tmp_path):
    third = np.full(2, 1 / 3, "float32")
    assert hvd.allreduce(third, compression=hvd.Compression.none).tolist() == third.tolist()
    for compression in (hvd.Compression.fp16, InHalf):
        assert hvd.allreduce(third, compression=compression).tolist() == third.astype("float16").astype("float32").tolist()
    for compression in (hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16, InHalf):
        mine = trained(model(1), hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), compression=compression), *data(hvd.rank()))
        require_equal(mine, trained(model(1), keras.optimizers.SGD(0.1), *whole()), 1e-3 if compression is hvd.Compression.none else 5e-2)
        require_alike(mine)
    path = str(tmp_path / "model.keras")
    mine.save(path)
    loaded = hvd.load_model(path, compression=hvd.Compression.fp16)
    loaded.fit(*data(hvd.rank()), verbose=0)
    require_alike(loaded)


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match=r"DistributedOptimizer\(\w+\): this is a class; give an optimizer: \w+\(...\)"):
        hvd.DistributedOptimizer(keras.optimizers.SGD)
    with pytest.raises(ValueError, match="local_layers has a int; give Keras layers"):
        hvd.PartialDistributedOptimizer(keras.optimizers.SGD(), local_layers=[3])
    with pytest.raises(ValueError, match="compression=3: give Compression.none"):
        hvd.DistributedOptimizer(keras.optimizers.SGD(), compression=3)
    with pytest.raises(ValueError, match="give an optimizer of Keras"):
        hvd.DistributedOptimizer(object())
    with pytest.raises(ValueError, match="distributed already"):
        hvd.DistributedOptimizer(hvd.DistributedOptimizer(keras.optimizers.SGD()))
    with pytest.raises(ValueError, match="needs op=Average"):
        hvd.DistributedOptimizer(keras.optimizers.SGD(), gradient_predivide_factor=2.0, op=hvd.Sum)


def test_a_save_and_a_restore_within_fit_take_and_set_the_values_of_the_moment():
    network, (x, y) = model(1), data(0)
    network.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.5), loss="mse")
    state, kept = hvd.elastic.KerasState(network, batch=0), []

    class Back(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1:
                state.save()
                kept.extend(np.array(value) for value in state.read())
            if batch == 3:
                state.restore()

    at_first = [np.array(value) for value in state.read()]
    network.fit(x, y, batch_size=8, epochs=1, verbose=0, callbacks=[Back()])
    assert any(not np.array_equal(one, other) for one, other in zip(kept, at_first))
    for one, other in zip(kept, state.read()):
        np.testing.assert_array_equal(one, other)
