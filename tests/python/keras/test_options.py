"""What optimizers may be told in model.fit(): local layers, groups, compressors, Adasum, a loss scale."""

import numpy as np
import pytest
from test_fit import data, keras, model, trained

import rueda.keras
import rueda.tensorflow.keras as hvd

IS_KERAS_3 = hasattr(keras.optimizers.SGD, "apply")


def alone(**options):
    return trained(model(1), keras.optimizers.SGD(0.1, **options), *[np.concatenate(each) for each in zip(*map(data, range(hvd.size())))])


def require_close(mine, expected, tolerance):
    for got, wanted in zip(mine.get_weights(), expected.get_weights()):
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize("options, tolerance", [
    ({"compression": rueda.keras.Compression.fp16}, 2e-2), ({"compression": rueda.keras.Compression.bf16}, 5e-2),
    ({"num_groups": 2}, 1e-3), ({"gradient_predivide_factor": 2.0}, 1e-3), ({"sparse_as_dense": True}, 1e-3),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("binding", [hvd, rueda.keras], ids=["rueda.tensorflow.keras", "rueda.keras"])
def test_options_give_the_model_of_one_process(binding, options, tolerance):
    require_close(trained(model(1), binding.DistributedOptimizer(keras.optimizers.SGD(0.1), **options), *data(hvd.rank())), alone(), tolerance)


def test_groups_may_be_lists_of_variables():
    network = model(1)
    groups = [[network.trainable_variables[3], network.trainable_variables[0]]]
    require_close(trained(network, hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), groups=groups), *data(hvd.rank())), alone(), 1e-3)


@pytest.mark.parametrize("binding", [hvd, rueda.keras], ids=["rueda.tensorflow.keras", "rueda.keras"])
def test_local_layers_take_their_own_steps(binding):
    network = model(1)
    shared, local = network.layers
    before = local.get_weights()
    trained(network, binding.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=local, scale_local_gradients=False),
            *data(hvd.rank()), epochs=1)  # fmt: skip
    own = trained(model(1), keras.optimizers.SGD(0.1), *data(hvd.rank()), epochs=1).layers[1]
    for old, new, wanted in zip(before, local.get_weights(), own.get_weights()):
        assert not np.array_equal(old, new)
        np.testing.assert_allclose(new, wanted, rtol=1e-3, atol=1e-5)
    for weights in shared.get_weights():
        np.testing.assert_array_equal(weights, hvd.broadcast(weights, 0))


def test_adasum_takes_equal_gradients_as_they_are():
    if hvd.size() & (hvd.size() - 1):
        pytest.skip("Adasum takes a power of two ranks")
    mine = trained(model(1), hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), op=hvd.Adasum), *data(0))
    require_close(mine, trained(model(1), keras.optimizers.SGD(0.1), *data(0)), 1e-3)


def loss_scaled(optimizer, **options):
    return (keras.optimizers.LossScaleOptimizer if IS_KERAS_3 else keras.mixed_precision.LossScaleOptimizer)(optimizer, **options)


AROUND = {"around it": lambda: loss_scaled(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))),
          "inside of it": lambda: hvd.DistributedOptimizer(loss_scaled(keras.optimizers.SGD(0.1)))}  # fmt: skip


@pytest.mark.parametrize("where", AROUND)
def test_a_loss_scale_goes_with_the_distributed_optimizer(where):
    require_close(trained(model(1), AROUND[where](), *data(hvd.rank())), alone(), 1e-3)


@pytest.mark.parametrize("where", AROUND if IS_KERAS_3 else ["inside of it"])
def test_all_ranks_skip_a_step_in_which_the_gradients_of_one_overflow(where):
    network, optimizer = model(1), AROUND[where]()
    before = network.get_weights()
    x, y = data(hvd.rank())
    trained(network, optimizer, x, y * 1e38 if hvd.rank() == 1 else y, epochs=1)
    for old, new in zip(before, network.get_weights()):
        np.testing.assert_array_equal(old, new)
    network.fit(x, y, batch_size=len(x), epochs=1, verbose=0)
    for old, new in zip(before, network.get_weights()):
        assert not np.array_equal(old, new)
        np.testing.assert_array_equal(new, hvd.broadcast(new, 0))


def test_sparse_gradients_train_as_dense_ones():
    def table():
        keras.utils.set_random_seed(1)
        return keras.Sequential([keras.Input((2,), dtype="int32"), keras.layers.Embedding(6, 3), keras.layers.Flatten(), keras.layers.Dense(1)])

    words = np.array([[hvd.rank(), 3], [hvd.rank(), 4]], "int32")
    targets = np.ones([2, 1], "float32")
    weights = [trained(table(), hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), sparse_as_dense=dense), words, targets).get_weights()
               for dense in (False, True)]  # fmt: skip
    for sparse, dense in zip(*weights):
        np.testing.assert_allclose(sparse, dense, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(sparse, hvd.broadcast(sparse, 0), rtol=1e-5)


@pytest.mark.parametrize("binding", [hvd, rueda.keras], ids=["rueda.tensorflow.keras", "rueda.keras"])
def test_classes_and_what_is_no_layer_are_refused(binding):
    for make in (binding.DistributedOptimizer, binding.PartialDistributedOptimizer):
        with pytest.raises(ValueError, match=r"DistributedOptimizer\(SGD\): this is a class; give an optimizer: SGD\(...\)"):
            make(keras.optimizers.SGD)
    with pytest.raises(ValueError, match="local_layers has a int; give Keras layers"):
        binding.PartialDistributedOptimizer(keras.optimizers.SGD(), local_layers=[3])


def test_a_compressor_is_used_for_a_value_too():
    third = np.full(2, 1 / 3, "float32")
    assert rueda.keras.allreduce(third).tolist() == third.tolist()
    assert rueda.keras.allreduce(third, compression=rueda.keras.Compression.fp16).tolist() == third.astype("float16").tolist()
