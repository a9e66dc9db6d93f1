"""The gradients of the operations. All ranks run them in their backward passes.

Every rank's loss depends on every rank's input, and each gradient here is the mean or the sum over the ranks that scripts
with losses across ranks expect: an all-reduce gives back an all-reduce of the same operator, an all-gather each rank's
rows of the mean, a broadcast the mean on the root and zero elsewhere, a reduce-scatter the gathered rows.
"""

from typing import Any, List

from rueda._native import lib
from rueda.operations import Average, Sum
from rueda.tensorflow.library import ops, tf
from rueda.tensorflow.traces import epoch, gradient_names, must_run

_PLAIN = {"codec": lib.RUEDA_CODEC_NONE, "prescale": "1.0", "postscale": "1.0"}
_RANK, _SET_SIZE, _SET_RANK = 0, 4, 6  # the questions of bindings/tensorflow/kernel.h


def _names(op: Any) -> List[str]:
    return gradient_names(op.get_attr("names"))


def _filled(op: Any, gradients: Any) -> List[Any]:
    """The gradients, with zeros for outputs that the loss does not depend on: the other ranks' may."""
    return [tf.zeros_like(output) if gradient is None else tf.convert_to_tensor(gradient)
            for output, gradient in zip(op.outputs, gradients)]  # fmt: skip


def _reduced(op: Any, tensors: List[Any], reduce_op: int, names: List[str]) -> List[Any]:
    outputs = ops.rueda_allreduce(tensors=tensors, epoch=epoch(), names=names, process_set=op.get_attr("process_set"),
                                  reduce_op=reduce_op, **_PLAIN)  # fmt: skip
    must_run(outputs)
    return list(outputs)


@tf.RegisterGradient("RuedaAllreduce")
def _of_allreduce(op: Any, *gradients: Any) -> List[Any]:
    attributes = {name: op.get_attr(name) for name in ("process_set", "reduce_op", "codec", "prescale", "postscale")}
    outputs = ops.rueda_allreduce(tensors=_filled(op, gradients), epoch=epoch(), names=_names(op), **attributes)
    must_run(outputs)
    return [*outputs, None]


@tf.RegisterGradient("RuedaBroadcast")
def _of_broadcast(op: Any, *gradients: Any) -> List[Any]:
    means = _reduced(op, _filled(op, gradients), Average, _names(op))
    is_root = tf.equal(ops.rueda_query(question=_RANK, process_set=0), op.get_attr("root"))
    return [*(tf.where(is_root, mean, tf.zeros_like(mean)) for mean in means), None]


@tf.RegisterGradient("RuedaAllgather")
def _of_allgather(op: Any, *gradients: Any) -> List[Any]:
    names, process_set = _names(op), op.get_attr("process_set")
    means = _reduced(op, _filled(op, gradients), Average, names)
    rows = tf.stack([tf.shape(tensor, tf.int64)[0] for tensor in op.inputs[:-1]])
    gathered = ops.rueda_allgather(tensors=[rows[tf.newaxis]], epoch=epoch(), names=[name and name + ".rows" for name in names[:1]],
                                   process_set=process_set)  # fmt: skip
    must_run(gathered)
    position = ops.rueda_query(question=_SET_RANK, process_set=process_set)
    first = tf.reduce_sum(gathered[0][:position], axis=0)
    return [*(mean[first[i] : first[i] + rows[i]] for i, mean in enumerate(means)), None]


@tf.RegisterGradient("RuedaAlltoall")
def _of_alltoall(op: Any, gradient: Any, _: Any) -> List[Any]:
    """The gradient of a row returns to the rank that sent the row."""
    outputs = ops.rueda_alltoall(tensor=_filled(op, [gradient])[0], splits=tf.cast(op.outputs[1], tf.int64), epoch=epoch(), names=_names(op),
                                 process_set=op.get_attr("process_set"))  # fmt: skip
    must_run(list(outputs))
    return [outputs.output, None, None]


@tf.RegisterGradient("RuedaReducescatter")
def _of_reducescatter(op: Any, *gradients: Any) -> List[Any]:
    reduce_op, process_set = op.get_attr("reduce_op"), op.get_attr("process_set")
    if reduce_op not in (Average, Sum):
        raise ValueError("a reduce-scatter has a gradient only with op=Average or op=Sum")
    gathered = ops.rueda_allgather(tensors=_filled(op, gradients), epoch=epoch(), names=_names(op), process_set=process_set)
    must_run(gathered)
    factor = float(op.get_attr("prescale")) * float(op.get_attr("postscale"))
    if reduce_op == Sum:
        factor = factor * tf.cast(ops.rueda_query(question=_SET_SIZE, process_set=process_set), tf.float64)
    return [*(each * tf.cast(factor, each.dtype) for each in gathered), None]


for _op in ("RuedaJoin", "RuedaQuery", "RuedaEpoch"):
    tf.no_gradient(_op)
