"""The collectives on tensors, through which gradients flow. They work eagerly, in tf.function, in tf.data and in sessions.

In a graph an operation is named after `name`, or after its tensor, and the graph's runs must agree on all ranks. Errors
before an operation starts are ValueErrors; those after it are TensorFlow's InvalidArgumentError, FailedPreconditionError
(the ranks differ, or there was no init()) and AbortedError (a rank died or has left), with Rueda's sentence.
"""

from typing import Any, List, Optional

from rueda import operations as common
from rueda._native import lib
from rueda.compression import codec_of
from rueda.handles import Handle
from rueda.operations import Average, Sum
from rueda.process_sets import ProcessSet, global_process_set, id_of
from rueda.session import current
from rueda.tensorflow import calls
from rueda.tensorflow import gradients as _registered  # noqa: F401
from rueda.tensorflow.compression import Compression
from rueda.tensorflow.library import ops, tf
from rueda.tensorflow.traces import epoch, must_run, operation_name


def _allreduce_slices(tensor: Any, name: Optional[str], op: int, process_set: ProcessSet, factors: Any) -> Any:
    if op not in (Average, Sum):
        raise NotImplementedError("IndexedSlices can be reduced with op=Average or op=Sum only; tf.convert_to_tensor() makes them dense")
    if factors != (1.0, 1.0):
        raise NotImplementedError("IndexedSlices cannot be reduced with prescale_factor or postscale_factor; tf.convert_to_tensor() makes them dense")
    name = operation_name("Allreduce", tensor.values, name)
    values = calls.allgather([calls.with_rows(tensor.values, "an all-reduce of IndexedSlices")], [name and name + ".values"], process_set)[0]
    indices = calls.allgather([tensor.indices], [name and name + ".indices"], process_set)[0]
    if op == Average:
        values = values / tf.cast(size_op(id_of(process_set)), values.dtype)
    return tf.IndexedSlices(values, indices, dense_shape=tensor.dense_shape)


def allreduce(tensor: Any, average: Any = None, device_dense: str = "", device_sparse: str = "", compression: Any = Compression.none,
              op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set, ignore_name_scope: bool = False) -> Any:
    """Reduces tensors of one shape and dtype element by element; every rank gets the same bits.

    tensor: a tensor, a variable, or tf.IndexedSlices, which give the rows of all ranks without adding rows of one index.
    op: Average if it is None. compression: the form in which f32 and f64 travel. device_dense, device_sparse: ignored, since
    the operation runs on the host. The gradient is reduced with the same operator.
    """
    op = common.reduce_op(average, op)
    if isinstance(tensor, tf.IndexedSlices):
        return _allreduce_slices(tensor, name, op, process_set, (prescale_factor, postscale_factor))
    name = operation_name("Allreduce", tensor, name, ignore_name_scope)
    return _reduce([tensor], [name], compression, op, prescale_factor, postscale_factor, process_set, False)[0]


def _reduce(tensors: Any, names: Any, compression: Any, op: int, prescale: float, postscale: float, process_set: ProcessSet,
            scatter: bool) -> List[Any]:
    if scatter and op == common.Adasum:
        raise ValueError("op=Adasum: adasum is an all-reduce's operator; a reduce-scatter takes Average, Sum, Min, Max or Product")
    codec = codec_of(compression)
    inputs = [calls.with_rows(tensor, "a reduce-scatter") if scatter else calls.dense(tensor) for tensor in tensors]
    if codec is not None:
        return calls.reduce(inputs, names, op, codec, prescale, postscale, process_set, scatter)
    small = [compression.compress(tensor) for tensor in inputs]
    outputs = calls.reduce([tensor for tensor, _ in small], names, op, lib.RUEDA_CODEC_NONE, prescale, postscale, process_set, scatter)
    return [compression.decompress(output, context) for output, (_, context) in zip(outputs, small)]


def _group_names(kind: str, tensors: Any, name: Optional[str], ignore_name_scope: bool) -> List[str]:
    base = operation_name(kind, tensors[0], name, ignore_name_scope)
    return [f"{base}.{i}" if base else "" for i in range(len(tensors))] if len(tensors) > 1 else [base]


def grouped_allreduce(tensors: Any, average: Any = None, device_dense: str = "", device_sparse: str = "",
                      compression: Any = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set, ignore_name_scope: bool = False,
                      name: Optional[str] = None) -> List[Any]:
    """allreduce() of several tensors as one group, which is reduced whole or not at all. Returns a list.

    tf.IndexedSlices among them are reduced one by one.
    """
    tensors, op = list(tensors), common.reduce_op(average, op)
    positions = [i for i, tensor in enumerate(tensors) if not isinstance(tensor, tf.IndexedSlices)]
    results = [None if i in positions else _allreduce_slices(tensor, name and f"{name}.{i}", op, process_set, (prescale_factor, postscale_factor))
               for i, tensor in enumerate(tensors)]  # fmt: skip
    group = [tensors[i] for i in positions]
    if group:
        names = _group_names("GroupedAllreduce", group, name, ignore_name_scope)
        for i, reduced in zip(positions, _reduce(group, names, compression, op, prescale_factor, postscale_factor, process_set, False)):
            results[i] = reduced
    return results


def reducescatter(tensor: Any, device_dense: str = "", compression: Any = Compression.none, op: int = Average, name: Optional[str] = None,
                  process_set: ProcessSet = global_process_set, ignore_name_scope: bool = False, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> Any:
    """Reduces tensors of one shape and dtype, and returns this rank's part of the rows. The first ranks get one row more if
    they cannot be divided evenly. The gradient is gathered."""
    name = operation_name("Reducescatter", tensor, name, ignore_name_scope)
    return _reduce([tensor], [name], compression, common.reduce_op(None, op), prescale_factor, postscale_factor, process_set, True)[0]


def grouped_reducescatter(tensors: Any, device_dense: str = "", compression: Any = Compression.none, op: int = Average,
                          process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> List[Any]:
    """reducescatter() of several tensors as one group. Returns a list."""
    tensors = list(tensors)
    if not tensors:
        return []
    names = _group_names("GroupedReducescatter", tensors, None, False)
    return _reduce(tensors, names, compression, common.reduce_op(None, op), prescale_factor, postscale_factor, process_set, True)


def allgather(tensor: Any, name: Optional[str] = None, ignore_name_scope: bool = False,
              process_set: ProcessSet = global_process_set) -> Any:
    """Concatenates the rows of all ranks, in the order of ranks. Dimension 0 may differ between ranks. Each rank's gradient
    is its rows of the mean of the ranks' gradients."""
    name = operation_name("Allgather", tensor, name, ignore_name_scope)
    return calls.allgather([calls.with_rows(tensor, "an all-gather")], [name], process_set)[0]


def grouped_allgather(tensors: Any, name: Optional[str] = None, ignore_name_scope: bool = False,
                      process_set: ProcessSet = global_process_set) -> List[Any]:
    """allgather() of several tensors as one group. Returns a list."""
    tensors = [calls.with_rows(tensor, "an all-gather") for tensor in tensors]
    return calls.allgather(tensors, _group_names("GroupedAllgather", tensors, name, ignore_name_scope), process_set) if tensors else []


def broadcast(tensor: Any, root_rank: int, name: Optional[str] = None, ignore_name_scope: bool = False,
              process_set: ProcessSet = global_process_set) -> Any:
    """Returns the root's tensor on every rank. root_rank: a rank of the job, even within a process set. The gradient is the
    mean of the ranks' gradients on the root, and zero elsewhere."""
    name = operation_name("Broadcast", tensor, name, ignore_name_scope)
    return calls.broadcast([calls.dense(tensor)], [name], common.root_of(root_rank), process_set)[0]


def alltoall(tensor: Any, splits: Any = None, name: Optional[str] = None, ignore_name_scope: bool = False,
             process_set: ProcessSet = global_process_set) -> Any:
    """Sends the next splits[r] rows to each rank r of the set, equal parts if splits is None. Returns the rows received, in
    the order of ranks, and how many came from each."""
    name = operation_name("Alltoall", tensor, name, ignore_name_scope)
    counts = tf.cast(tf.convert_to_tensor([] if splits is None else splits), tf.int64)
    return calls.alltoall(calls.with_rows(tensor, "an all-to-all"), tf.reshape(counts, [-1]), name, process_set)


def join() -> Any:
    """Tells the others that this rank has no more data, as rueda.torch.join() does. Returns the rank that joined last."""
    last = ops.rueda_join(epoch=epoch(), process_set=0)
    must_run(last)
    return last


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Blocks until all ranks of the set have called it. Not for graphs: it runs when it is called."""
    session = current()
    Handle(session, lib.rueda_py_start_barrier(session.pointer, id_of(process_set)), None).wait()


def _query(question: int, process_set_id: int, name: Optional[str]) -> Any:
    return ops.rueda_query(question=question, process_set=process_set_id, name=name)


def rank_op(name: Optional[str] = None) -> Any:
    """rank() as an int32 tensor, found out when the graph runs. So are the next four."""
    return _query(0, 0, name)


def size_op(process_set_id: int = 0, name: Optional[str] = None) -> Any:
    """The number of ranks in the set, as a tensor."""
    return _query(4, process_set_id, name)


def local_rank_op(name: Optional[str] = None) -> Any:
    """local_rank() as a tensor."""
    return _query(2, 0, name)


def local_size_op(name: Optional[str] = None) -> Any:
    """local_size() as a tensor."""
    return _query(3, 0, name)


def process_set_included_op(process_set_id: int = 0, name: Optional[str] = None) -> Any:
    """1 if this rank is a member of the set, else 0, as a tensor."""
    return _query(5, process_set_id, name)
