"""Calls of the ops, with the checks of arguments that they share. A call returns a list with an output for each tensor."""

from typing import Any, List, Sequence

from rueda._native import lib
from rueda.process_sets import ProcessSet, id_of
from rueda.tensorflow.library import ops, tf
from rueda.tensorflow.traces import epoch, must_run

_DTYPES = frozenset((tf.uint8, tf.int8, tf.uint16, tf.int16, tf.uint32, tf.int32, tf.uint64, tf.int64, tf.half, tf.bfloat16, tf.float32,
                     tf.float64, tf.bool, tf.complex64, tf.complex128))  # fmt: skip

# Tensors of several parts, which convert_to_tensor() does not take, and what makes them dense.
_NOT_DENSE = ((tf.RaggedTensor, "x.to_tensor()"), (tf.SparseTensor, "tf.sparse.to_dense(x)"))


def dense(tensor: Any) -> Any:
    """The value as a tensor. Raises ValueError if Rueda cannot send it."""
    for kind, remedy in _NOT_DENSE:
        if isinstance(tensor, kind):
            raise ValueError(f"a {kind.__name__} cannot be sent; {remedy} makes it dense")
    tensor = tf.convert_to_tensor(tensor)
    if tensor.dtype not in _DTYPES:
        raise ValueError(f"dtype {tensor.dtype.name} cannot be sent; give a tensor of numbers or of bool")
    return tensor


def with_rows(tensor: Any, what: str) -> Any:
    """dense(), for operations on rows. Raises ValueError if the tensor is known to have no dimensions."""
    tensor = dense(tensor)
    if tensor.shape.rank == 0:
        raise ValueError(f"{what} needs a tensor with at least one dimension; this one has none: tf.reshape(tensor, [1])")
    return tensor


def reduce(tensors: Sequence[Any], names: Sequence[str], op: int, codec: int, prescale: float, postscale: float,
           process_set: ProcessSet, scatter: bool = False) -> List[Any]:
    """All-reduces tensors, or reduce-scatters them, several as one group."""
    call = ops.rueda_reducescatter if scatter else ops.rueda_allreduce
    outputs = call(tensors=list(tensors), epoch=epoch(), names=list(names), process_set=id_of(process_set), reduce_op=op, codec=codec,
                   prescale=repr(float(prescale)), postscale=repr(float(postscale)))  # fmt: skip
    must_run(outputs)
    return list(outputs)


def allreduce_plain(tensors: Sequence[Any], names: Sequence[str], op: int, process_set: ProcessSet) -> List[Any]:
    """reduce() without codec and factors."""
    return reduce(tensors, names, op, lib.RUEDA_CODEC_NONE, 1.0, 1.0, process_set)


def broadcast(tensors: Sequence[Any], names: Sequence[str], root: int, process_set: ProcessSet) -> List[Any]:
    """Broadcasts tensors, several as one group."""
    outputs = ops.rueda_broadcast(tensors=list(tensors), epoch=epoch(), names=list(names), process_set=id_of(process_set), root=root)
    must_run(outputs)
    return list(outputs)


def allgather(tensors: Sequence[Any], names: Sequence[str], process_set: ProcessSet) -> List[Any]:
    """Gathers the rows of tensors, several as one group."""
    outputs = ops.rueda_allgather(tensors=list(tensors), epoch=epoch(), names=list(names), process_set=id_of(process_set))
    must_run(outputs)
    return list(outputs)


def alltoall(tensor: Any, splits: Any, name: str, process_set: ProcessSet) -> Any:
    """Returns the output and the received splits of an all-to-all."""
    outputs = ops.rueda_alltoall(tensor=tensor, splits=splits, epoch=epoch(), names=[name], process_set=id_of(process_set))
    must_run(list(outputs))
    return outputs.output, outputs.received_splits
