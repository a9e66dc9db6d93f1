"""Bad input: what is refused before anything starts, what only the running graph shows, and what ranks disagree on."""

import numpy as np
import pytest
import tensorflow as tf

import rueda.tensorflow as hvd
from rueda import session, watchers


def works():
    return hvd.allreduce(tf.ones(1), op=hvd.Sum).numpy().tolist() == [hvd.size()]


VARIABLE = tf.Variable(1.0)
UNSUPPORTED = [
    (lambda: tf.constant("text"), "string"),
    (lambda: tf.quantization.quantize(tf.ones([2]), 0.0, 1.0, tf.qint8).output, "qint8"),
    (lambda: tf.raw_ops.EmptyTensorList(element_shape=[1], max_num_elements=1, element_dtype=tf.float32), "variant"),
]


@pytest.mark.parametrize("make, says", UNSUPPORTED, ids=[says for _, says in UNSUPPORTED])
@pytest.mark.parametrize("operation", ["allreduce", "grouped_allreduce", "reducescatter", "allgather", "broadcast", "alltoall"])
def test_dtypes_that_cannot_be_sent_are_named(make, says, operation):
    tensor = make()
    call = {"grouped_allreduce": lambda x: hvd.grouped_allreduce([x]), "broadcast": lambda x: hvd.broadcast(x, 0)}.get(
        operation, getattr(hvd, operation))  # fmt: skip
    for run in (call, tf.function(call)):
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=says):
            run(tensor)
    assert works()


def test_a_sum_of_complex_numbers_is_right_and_a_maximum_is_refused():
    numbers = tf.constant([1 + 2j, 3j], tf.complex64)
    np.testing.assert_allclose(hvd.allreduce(numbers, op=hvd.Sum), hvd.size() * numbers.numpy())
    with pytest.raises((ValueError, tf.errors.OpError), match="complex"):
        hvd.allreduce(numbers, op=hvd.Max)
    assert works()


def test_a_rank_that_is_unknown_in_the_trace_is_reduced_and_refused_as_it_comes():
    @tf.function(input_signature=[tf.TensorSpec(None)])
    def reduce(x):
        return hvd.allreduce(x, op=hvd.Sum)

    @tf.function(input_signature=[tf.TensorSpec(None)])
    def gather(x):
        return hvd.allgather(x)

    for shape in ([], [2], [2, 3]):
        assert reduce(tf.ones(shape)).shape == shape
    assert gather(tf.ones([1, 2])).shape == [hvd.size(), 2]
    with pytest.raises(tf.errors.InvalidArgumentError, match="dimension"):
        gather(tf.constant(1.0))
    assert works()


def test_splits_that_only_the_graph_shows_are_refused_as_they_come():
    @tf.function(input_signature=[tf.TensorSpec([None]), tf.TensorSpec([None], tf.int32)])
    def exchange(x, splits):
        return hvd.alltoall(x, splits)[0]

    np.testing.assert_array_equal(exchange(tf.ones(hvd.size()), tf.ones(hvd.size(), tf.int32)), np.ones(hvd.size()))
    for splits in ([1] * (hvd.size() + 1), [7] * hvd.size(), [-1] * hvd.size()):
        with pytest.raises(tf.errors.InvalidArgumentError, match="split"):
            exchange(tf.ones(hvd.size()), tf.constant(splits))
    assert works()


@pytest.mark.parametrize("what, call", [
    ("shape", lambda odd: hvd.allreduce(tf.ones(2 + odd), name="of graph")),
    ("dtype", lambda odd: hvd.allreduce(tf.ones(2, tf.float64 if odd else tf.float32), name="of graph")),
    ("root", lambda odd: hvd.broadcast(tf.ones(2), int(odd), name="of graph")),
    ("shape", lambda odd: hvd.allgather(tf.ones([2, 2 + odd]), name="of graph")),
    ("shape", lambda odd: hvd.grouped_allreduce([tf.ones(2), tf.ones(2 + odd)], name="of graph")),
], ids=["shape", "dtype", "root", "rows", "group"])  # fmt: skip
def test_what_ranks_disagree_on_is_told_to_each_in_a_graph_too(what, call):
    odd = hvd.rank() == 1
    for run in (lambda: call(odd), tf.function(lambda: call(odd))):
        with pytest.raises(tf.errors.FailedPreconditionError, match=f"{what} differs: rank 0 .*rank 1") as caught:
            run()
        said = caught.value.message
        assert "of graph" in said
    assert works()


def test_names_that_collide_in_one_trace_get_numbers_and_a_wrong_name_is_refused():
    @tf.function
    def step():
        same = [hvd.allreduce(tf.fill([1], float(number)), name="same", op=hvd.Sum) for number in range(3)]
        return same + hvd.grouped_allreduce([tf.ones(1), tf.ones(1)], name="same", op=hvd.Sum)

    assert [float(each[0]) for each in step()] == [0.0, hvd.size(), 2.0 * hvd.size(), hvd.size(), hvd.size()]
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="1024"):
        hvd.allreduce(tf.ones(1), name="n" * 2000)
    assert works()


def compiled(call):
    return tf.function(lambda: call(tf.ones(2)), jit_compile=True)


def fit_compiled():
    import rueda.tensorflow.keras as of_keras

    network = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    network.compile(optimizer=of_keras.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)), loss="mse", jit_compile=True)
    network.fit(np.ones((4, 4)), np.ones((4, 1)), verbose=0)


@pytest.mark.parametrize("call", [
    compiled(hvd.allreduce), compiled(lambda x: hvd.grouped_allreduce([x])), compiled(hvd.allgather), compiled(lambda x: hvd.broadcast(x, 0)),
    compiled(hvd.reducescatter), compiled(lambda x: tf.function(hvd.allreduce)(x)), fit_compiled,
    compiled(lambda x: hvd.broadcast_variables([VARIABLE], 0)),
], ids=["allreduce", "group", "allgather", "broadcast", "reducescatter", "inner function", "model.fit", "variables"])  # fmt: skip
def test_xla_is_refused_with_what_to_do_wherever_it_is_traced(call):
    with pytest.raises(NotImplementedError, match="XLA cannot compile Rueda's operations: use jit_compile=False"):
        call()
    assert works()


def test_a_function_that_was_traced_before_is_refused_by_tensorflow_with_the_op_s_name():
    inner = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))
    assert inner(tf.ones(1)).numpy().tolist() == [hvd.size()]
    with pytest.raises(tf.errors.InvalidArgumentError, match="RuedaEpoch"):
        tf.function(lambda x: inner(x) + 1, jit_compile=True)(tf.ones(1))
    assert works()


def test_process_sets_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="add_process_set"):
        hvd.allreduce(tf.ones(1), process_set=hvd.ProcessSet([0]))
    assert works()


RAGGED = (tf.ragged.constant([[1.0], [2.0, 3.0]]), r"a RaggedTensor cannot be sent; x.to_tensor\(\) makes it dense")
SPARSE = (tf.sparse.from_dense([[0.0, 1.0]]), r"a SparseTensor cannot be sent; tf.sparse.to_dense\(x\) makes it dense")


@pytest.mark.parametrize("tensor, says", [RAGGED, SPARSE], ids=["ragged", "sparse"])
def test_tensors_of_several_parts_are_refused_with_what_makes_them_dense(tensor, says):
    calls = (hvd.allreduce, hvd.reducescatter, hvd.allgather, hvd.alltoall, lambda x: hvd.broadcast(x, 0), lambda x: hvd.grouped_allreduce([x]))
    for call in calls:
        for run in (call, tf.function(call)):
            with pytest.raises(ValueError, match=says):
                run(tensor)
    assert works()


@pytest.mark.parametrize("dtype", [tf.float32, tf.int32], ids=["float32", "int32"])
@pytest.mark.parametrize("call", [hvd.reducescatter, lambda x, op: hvd.grouped_reducescatter([x], op=op)], ids=["one", "group"])
def test_adasum_of_rows_is_refused_alike_for_every_dtype(call, dtype):
    with pytest.raises(ValueError, match="op=Adasum: adasum is an all-reduce's operator; a reduce-scatter takes Average"):
        call(tf.ones(2, dtype), op=hvd.Adasum)
    assert works()


def test_a_class_for_an_optimizer_and_a_number_for_a_tape_are_refused():
    for optimizer in (tf.keras.optimizers.SGD, tf.compat.v1.train.GradientDescentOptimizer):
        name = optimizer.__name__
        with pytest.raises(ValueError, match=rf"DistributedOptimizer\({name}\): this is a class; give an optimizer: {name}\(...\)"):
            hvd.DistributedOptimizer(optimizer)
    for make in (hvd.DistributedGradientTape, hvd.PartialDistributedGradientTape):
        with pytest.raises(ValueError, match=r"DistributedGradientTape\(3\): give a tf.GradientTape, not a int"):
            make(3)


@pytest.mark.short
def test_ops_of_a_new_worker_of_a_running_job_are_refused_until_its_training_begins():
    here = session.current()

    @tf.function
    def compiled():
        return hvd.allreduce(tf.ones(1), op=hvd.Sum, name="early")

    assert compiled().numpy().tolist() == [hvd.size()]  # traced before
    here.__class__ = session._Newcomer
    try:
        for watcher in watchers.added:
            session._announce(here, watcher)
        with pytest.raises(tf.errors.OpError, match="a compiled operation: this process is a new worker of a running job"):
            compiled()
    finally:
        here.begin_training()
    assert compiled().numpy().tolist() == [hvd.size()]
