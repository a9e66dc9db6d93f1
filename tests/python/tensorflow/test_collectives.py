"""The collectives: eagerly, in tf.function, in tf.data and in a session."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_registry

import rueda.tensorflow as hvd

DTYPES = [tf.uint8, tf.int32, tf.int64, tf.half, tf.bfloat16, tf.float32, tf.float64]


def mine(*shape, dtype=tf.float32):
    return tf.cast(tf.fill(shape, hvd.rank() + 1), dtype)


def total():
    return sum(range(1, hvd.size() + 1))


@pytest.mark.short
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_a_sum_is_right_in_every_dtype_eagerly_and_in_a_function(dtype):
    def reduce(tensor):
        return hvd.allreduce(tensor, op=hvd.Sum)

    for call in (reduce, tf.function(reduce)):
        result = call(mine(3, dtype=dtype))
        assert result.dtype == dtype and result.shape == [3]
        np.testing.assert_array_equal(tf.cast(result, tf.float64), [total()] * 3)


def test_bools_are_added_by_or():
    assert hvd.allreduce(tf.constant([hvd.rank() == 0, False]), op=hvd.Sum).numpy().tolist() == [True, False]


@pytest.mark.short
def test_rows_may_differ_between_ranks_and_a_shape_that_is_unknown_in_the_trace_is_filled_in():
    rows = sum(range(1, hvd.size() + 1))

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def gather(tensor):
        gathered = hvd.allgather(tensor)
        assert gathered.shape.as_list() == [None, 2]
        return gathered

    assert gather(mine(hvd.rank() + 1, 2)).shape == [rows, 2]
    several = hvd.grouped_allgather([mine(hvd.rank() + 1, 2), mine(1), mine(0, 5)])
    assert [each.shape.as_list() for each in several] == [[rows, 2], [hvd.size()], [0, 5]]
    np.testing.assert_array_equal(several[1], np.arange(hvd.size()) + 1)


def test_broadcast_alltoall_and_reducescatter_move_what_they_should():
    root = hvd.size() - 1
    np.testing.assert_array_equal(hvd.broadcast(mine(2), root), [root + 1] * 2)
    output, received = hvd.alltoall(tf.fill([2 * hvd.size()], hvd.rank()), [2] * hvd.size())
    np.testing.assert_array_equal(output, np.repeat(np.arange(hvd.size()), 2))
    assert received.numpy().tolist() == [2] * hvd.size()
    rows = hvd.size() + 1
    part = hvd.reducescatter(tf.range(float(rows)), op=hvd.Sum)
    first = 0 if hvd.rank() == 0 else hvd.rank() + 1
    np.testing.assert_array_equal(part, hvd.size() * np.arange(rows)[first : first + len(part)])
    assert len(part) == (2 if hvd.rank() == 0 else 1)


@pytest.mark.short
def test_a_result_that_one_rank_does_not_use_is_reduced_all_the_same():
    @tf.function
    def step(tensor):
        reduced = hvd.allreduce(tensor, op=hvd.Sum)
        return reduced if hvd.rank() == 0 else tensor

    np.testing.assert_array_equal(step(mine(2)), [total() if hvd.rank() == 0 else hvd.rank() + 1] * 2)


def test_equal_names_in_one_trace_stay_apart_and_loops_work():
    @tf.function
    def step(tensor):
        return hvd.allreduce(tensor, name="same", op=hvd.Sum) + 10 * hvd.allreduce(tensor * 2, name="same", op=hvd.Sum)

    np.testing.assert_array_equal(step(mine(2)), [21 * total()] * 2)

    @tf.function
    def loop(tensor):
        for _ in tf.range(3):
            tensor = hvd.allreduce(tensor, op=hvd.Average)
        return tensor

    np.testing.assert_allclose(loop(mine(2)), [total() / hvd.size()] * 2)


def test_slices_become_the_rows_of_all_ranks():
    slices = tf.IndexedSlices(mine(1, 2), tf.constant([0]), tf.constant([3, 2]))
    reduced = hvd.allreduce(slices, op=hvd.Average)
    np.testing.assert_allclose(tf.convert_to_tensor(reduced)[0], [total() / hvd.size()] * 2)
    with pytest.raises(NotImplementedError, match="Average or op=Sum"):
        hvd.allreduce(slices, op=hvd.Min)
    with pytest.raises(NotImplementedError, match="prescale_factor"):
        hvd.allreduce(slices, prescale_factor=2.0)


@pytest.mark.short
def test_gradients_are_the_means_that_scripts_expect():
    scale = float(hvd.rank() + 1)

    def gradient(function, *shape):
        tensor = mine(*shape)
        with tf.GradientTape() as tape:
            tape.watch(tensor)
            loss = scale * tf.reduce_sum(function(tensor))
        return tape.gradient(loss, tensor).numpy()

    mean = total() / hvd.size()
    np.testing.assert_allclose(gradient(lambda x: hvd.allreduce(x, op=hvd.Sum), 2), [total()] * 2)
    np.testing.assert_allclose(gradient(hvd.allgather, hvd.rank() + 1, 2), np.full([hvd.rank() + 1, 2], mean))
    np.testing.assert_allclose(gradient(lambda x: hvd.broadcast(x, 0), 2), [mean if hvd.rank() == 0 else 0] * 2)
    ranks = np.arange(1, hvd.size() + 1)
    np.testing.assert_allclose(gradient(lambda x: hvd.reducescatter(x, op=hvd.Average), hvd.size()), ranks)
    np.testing.assert_allclose(gradient(lambda x: hvd.reducescatter(x, op=hvd.Sum), hvd.size()), ranks * hvd.size())
    np.testing.assert_allclose(gradient(lambda x: hvd.alltoall(x)[0], hvd.size()), ranks)


def test_tf_data_and_sessions_run_them():
    data = tf.data.Dataset.range(3).map(lambda i: hvd.allreduce(tf.cast(i, tf.float32), op=hvd.Sum, name="of data"))
    assert [float(each) for each in data] == [0.0, hvd.size(), 2.0 * hvd.size()]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        fed = tf.compat.v1.placeholder(tf.float32, [None])
        reduced, ranks = hvd.allreduce(fed, op=hvd.Sum), hvd.size_op()
        values, size = session.run([reduced, ranks], {fed: [1.0, 2.0]})
    assert (values.tolist(), size) == ([hvd.size(), 2.0 * hvd.size()], hvd.size())


def test_the_hook_gives_a_monitored_session_the_roots_variables():
    with tf.Graph().as_default():
        variable = tf.compat.v1.get_variable("v", initializer=float(hvd.rank()))
        with tf.compat.v1.train.MonitoredSession(hooks=[hvd.BroadcastGlobalVariablesHook(0)]) as session:
            assert session.run(variable) == 0.0


def test_queries_objects_and_variables():
    assert [int(each) for each in (hvd.rank_op(), hvd.size_op(), hvd.process_set_included_op())] == [hvd.rank(), hvd.size(), 1]
    assert hvd.broadcast_object({"of": hvd.rank()}, root_rank=1) == {"of": 1}
    assert hvd.allgather_object("x" * hvd.rank()) == ["x" * rank for rank in range(hvd.size())]
    variables = [tf.Variable(mine(2)), tf.Variable(hvd.rank()), tf.Variable(hvd.rank() == 0)]
    hvd.broadcast_variables(variables, root_rank=0)
    assert [each.numpy().tolist() for each in variables] == [[1, 1], 0, True]


def test_a_process_set_reduces_among_its_members():
    alone = hvd.add_process_set([1])
    if hvd.rank() == 1:
        assert hvd.allreduce(mine(1), process_set=alone).numpy().tolist() == [2.0]
        assert int(hvd.size_op(alone.process_set_id)) == 1
    assert hvd.remove_process_set(alone)


@pytest.mark.short
def test_ranks_that_differ_get_one_sentence_and_go_on():
    with pytest.raises(tf.errors.FailedPreconditionError, match='"differs": shape differs: rank 0'):
        hvd.allreduce(tf.ones(2 + hvd.rank()), name="differs")
    with pytest.raises(tf.errors.InvalidArgumentError, match="root"):
        hvd.broadcast(tf.ones(2), 77)
    np.testing.assert_array_equal(hvd.allreduce(mine(2), op=hvd.Sum), [total()] * 2)


def test_wrong_arguments_are_refused_before_anything_starts():
    with pytest.raises(ValueError, match="dtype string cannot be sent"):
        hvd.allreduce(tf.constant("text"))
    with pytest.raises(ValueError, match="at least one dimension"):
        hvd.allgather(tf.constant(1.0))
    with pytest.raises(ValueError, match="give op= or average="):
        hvd.allreduce(mine(1), average=True, op=hvd.Sum)


def test_xla_is_refused_in_a_sentence():
    @tf.function(jit_compile=True)
    def step(tensor):
        return hvd.allreduce(tensor)

    with pytest.raises(NotImplementedError, match="jit_compile=False"):
        step(mine(2))


def test_on_a_gpu_every_operation_takes_its_tensors_through_host_memory():
    """TensorFlow's own list of kernels says for a GPU, too, in which memory it would put each tensor."""
    of_gpu = {each.op: each for each in kernels.get_all_registered_kernels().kernel if each.op.startswith("Rueda") and each.device_type == "GPU"}
    assert {"RuedaAllreduce", "RuedaAllgather", "RuedaBroadcast", "RuedaEpoch"} <= set(of_gpu)
    for name, kernel in of_gpu.items():
        definition = op_def_registry.get(name)
        assert set(kernel.host_memory_arg) == {argument.name for argument in (*definition.input_arg, *definition.output_arg)}, name
