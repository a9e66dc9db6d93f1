"""rueda.mxnet gives the formula. Every rank of a job runs these tests, in an environment with MXNet: hvdrun -np N python
-m pytest -x tests/python/mxnet."""

import numpy as np
import pytest

import rueda.mxnet as hvd

import mxnet as mx  # isort: skip  (after rueda.mxnet, which makes it importable)


@pytest.fixture(scope="module", autouse=True)
def job():
    hvd.init()
    yield
    hvd.barrier()
    hvd.shutdown()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "int8", "int32", "int64"])
def test_an_allreduce_gives_the_formula(dtype):
    mine = mx.nd.arange(6).reshape((2, 3)).astype(dtype) + hvd.rank()
    total = sum(np.arange(6).reshape(2, 3) + rank for rank in range(hvd.size()))
    result = hvd.allreduce(mine, op=hvd.Sum)
    assert result.dtype == mine.dtype and np.array_equal(result.asnumpy(), total.astype(dtype))
    assert hvd.allreduce_(mine, op=hvd.Max) is mine
    assert np.array_equal(mine.asnumpy(), np.arange(6).reshape(2, 3) + hvd.size() - 1)
    scaled = hvd.allreduce(mx.nd.ones(2), None, "scaled", 0, 2.0, 3.0, op=hvd.Sum)
    assert scaled.asnumpy().tolist() == [6.0 * hvd.size()] * 2


def test_the_engine_s_work_before_and_after_is_waited_for():
    for _ in range(5):
        x = mx.nd.ones((300, 300)) / 300
        y = mx.nd.dot(x, x) * 300
        before = y + 1  # reads y
        hvd.allreduce_(y, op=hvd.Sum)
        np.testing.assert_allclose((y * 2).asnumpy(), 2 * hvd.size(), rtol=1e-5)
        np.testing.assert_allclose(before.asnumpy(), 2, rtol=1e-5)


def test_groups_rows_and_broadcasts_give_the_formula():
    n, r = hvd.size(), hvd.rank()
    for reduce in (hvd.grouped_allreduce, hvd.grouped_allreduce_):
        assert [x.asnumpy()[0] for x in reduce([mx.nd.ones(2), mx.nd.ones(3) * r], op=hvd.Sum)] == [n, n * (n - 1) / 2]
    assert hvd.allgather(mx.nd.full((r + 1,), r)).asnumpy().tolist() == [q for q in range(n) for _ in range(q + 1)]
    assert [x.shape for x in hvd.grouped_allgather([mx.nd.ones(2), mx.nd.ones((1, 2))])] == [(2 * n,), (n, 2)]
    assert hvd.broadcast(mx.nd.full(2, r), 1).asnumpy().tolist() == [1, 1]
    assert hvd.alltoall(mx.nd.arange(n) + 10 * r).asnumpy().tolist() == [10 * q + r for q in range(n)]
    output, received = hvd.alltoall(mx.nd.full(n, r), splits=mx.nd.ones(n, dtype="int32"))
    assert output.asnumpy().tolist() == list(range(n)) and received.asnumpy().tolist() == [1] * n
    assert hvd.reducescatter(mx.nd.arange(2 * n), hvd.Sum).asnumpy().tolist() == [n * 2 * r, n * (2 * r + 1)]
    assert hvd.grouped_reducescatter([mx.nd.ones(n)])[0].asnumpy().tolist() == [1]
    assert hvd.broadcast_object([r]) == [0] and hvd.allgather_object(r) == list(range(n))


def linear(rank):
    net = mx.gluon.nn.Dense(1, in_units=3)
    net.initialize(mx.init.Constant(0.1 * (rank + 1)))
    return net


def data(rank):
    x = np.random.RandomState(rank).normal(size=(8, 3)).astype("float32")
    return mx.nd.array(x), mx.nd.array(x.sum(1, keepdims=True))


def train(net, trainer, x, y, steps=4):
    for _ in range(steps):
        with mx.autograd.record():
            loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        trainer.step(1)
    return net.weight.data().asnumpy()


@pytest.mark.parametrize("more", [{}, {"num_groups": 2}, {"gradient_predivide_factor": 2.0}, {"compression": hvd.Compression.fp16}])
def test_a_trainer_updates_with_the_mean_of_all_ranks(more):
    net = linear(hvd.rank())
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    trained = train(net, hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, **more), *data(hvd.rank()))
    alone = linear(0)
    everything = [mx.nd.concat(*part, dim=0) for part in zip(*[data(rank) for rank in range(hvd.size())])]
    wanted = train(alone, mx.gluon.Trainer(alone.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=None), *everything)
    np.testing.assert_allclose(trained, wanted, rtol=1e-2 if "compression" in more else 1e-4)


def test_an_optimizer_updates_with_the_mean_of_all_ranks():
    optimizer = hvd.DistributedOptimizer(mx.optimizer.SGD(learning_rate=1.0))
    weight = mx.nd.zeros(2)
    optimizer.update(0, weight, mx.nd.full(2, hvd.rank()), optimizer.create_state(0, weight))
    assert weight.asnumpy().tolist() == [-(hvd.size() - 1) / 2] * 2 and optimizer.lr == 1.0


def test_parameters_without_a_shape_are_broadcast_when_they_get_one():
    net = mx.gluon.nn.Dense(1)
    net.initialize(mx.init.Constant(hvd.rank() + 1.0))
    hvd.broadcast_parameters(net.collect_params(), root_rank=1)
    net(mx.nd.ones((1, 3)))
    assert net.weight.data().asnumpy().tolist() == [[2.0] * 3]


def test_wrong_arguments_raise_value_error():
    for call, sentence in [
        (lambda: hvd.allreduce(np.ones(2)), "give an mxnet.nd.NDArray, not a ndarray"),
        (lambda: hvd.allreduce(mx.nd.ones((2, 2)).tostype("row_sparse")), "storage type is row_sparse"),
        (lambda: hvd.grouped_allreduce(mx.nd.ones(2)), "give a list of mxnet.nd.NDArray"),
        (lambda: hvd.broadcast_parameters(3), "params is a int"),
        (lambda: hvd.DistributedTrainer({}, hvd.DistributedOptimizer(mx.optimizer.SGD())), "reduces gradients itself"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            call()
    with pytest.raises(hvd.MismatchError, match="shape differs"):
        hvd.allreduce(mx.nd.ones(2 + (hvd.rank() == 0)), name="shapes")


def test_horovod_mxnet_is_rueda_mxnet():
    import horovod.mxnet

    assert horovod.mxnet.DistributedTrainer is hvd.DistributedTrainer and horovod.mxnet.mpi_ops.allreduce is hvd.allreduce
    horovod.mxnet.check_extension("horovod.mxnet", "HOROVOD_WITH_MXNET", __file__)


def test_ranks_with_less_data_join_and_count_as_zeros():
    found = [hvd.allreduce(mx.nd.full(1, hvd.rank() + 1), name="uneven", op=hvd.Sum).asscalar() for _ in range(hvd.rank() + 1)]
    assert hvd.join() == hvd.size() - 1
    assert found == [sum(rank + 1 for rank in range(batch, hvd.size())) for batch in range(hvd.rank() + 1)]
