"""What the tape and the optimizers do with gradients: reduce those of shared variables, scale those of local ones."""

import operator
from typing import Any, List, Sequence

from rueda.compression import codec_of
from rueda.operations import Adasum, Average, Sum, reduce_op
from rueda.process_sets import ProcessSet
from rueda.tensorflow.library import tf
from rueda.tensorflow.operations import _reduce, allreduce
from rueda.tensorflow.traces import unique_name
from rueda.tensorflow.variables import variable_name


class Reducer:
    """How gradients are reduced, and which variables are local. Not for several threads at once."""

    def __init__(self, prefix: str, compression: Any, sparse_as_dense: bool, op: int, gradient_predivide_factor: float, num_groups: int,
                 groups: Any, process_set: ProcessSet, scale_local_gradients: bool):
        """prefix: begins the operations' names. The rest: as DistributedOptimizer() says, which also says what is raised."""
        op = reduce_op(None, op)
        if gradient_predivide_factor != 1.0 and op != Average:
            raise ValueError(f"gradient_predivide_factor={gradient_predivide_factor} needs op=Average")
        if op not in (Average, Sum, Adasum):
            raise ValueError(f"op={op}: gradients can be reduced with Average, Sum or Adasum")
        if groups is not None and not (isinstance(groups, (list, tuple)) or hasattr(groups, "__index__")):
            raise ValueError(f"groups={groups!r:.60}: give a number of groups, or a list of lists of variables")
        if groups is not None and hasattr(groups, "__index__"):
            num_groups, groups = operator.index(groups), None
        if num_groups < 0:
            raise ValueError(f"num_groups={num_groups}: give a number of at least 0")
        codec_of(compression)
        self._prefix, self._compression, self._sparse_as_dense, self._op = prefix, compression, sparse_as_dense, op
        self._predivide, self._num_groups, self.process_set = float(gradient_predivide_factor), num_groups, process_set
        self._scale_local = scale_local_gradients
        self._group_of = {_key(variable): number for number, group in enumerate(groups or ()) for variable in group}
        if len(self._group_of) != sum(len(group) for group in groups or ()):
            raise ValueError("groups: a variable is listed twice")
        self._local: List[Any] = []

    def register_local(self, variable: Any) -> None:
        """Leaves the variable's gradient on this rank: it is divided by the number of ranks and not reduced."""
        if not self.is_local(variable):
            self._local.append(variable)

    def is_local(self, variable: Any) -> bool:
        """Returns whether register_local() was called with the variable."""
        return any(_key(variable) == _key(local) for local in self._local)

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any], generic_names: bool = False) -> List[Any]:
        """The gradients for this rank's step, in the same order. None stays None."""
        results = list(gradients)
        buckets: Any = {}
        for index, (gradient, variable) in enumerate(zip(gradients, variables)):
            if gradient is None:
                continue
            if self.is_local(variable):
                results[index] = self._scaled(gradient)
                continue
            if isinstance(gradient, tf.IndexedSlices) and self._sparse_as_dense:
                gradient = tf.convert_to_tensor(gradient)
            name = f"{self._prefix}.{index}" if generic_names else f"{self._prefix}.{index}.{variable_name(variable)}"
            if isinstance(gradient, tf.IndexedSlices):
                results[index] = allreduce(gradient, op=self._op, name=name, process_set=self.process_set, ignore_name_scope=True)
            else:
                buckets.setdefault(self._bucket(index, len(gradients), variable), []).append((index, gradient, unique_name(name)))
        for bucket in buckets.values():
            indices, tensors, names = zip(*bucket)
            reduced = _reduce(tensors, names, self._compression, self._op, 1.0 / self._predivide, self._predivide, self.process_set, False)
            for index, gradient in zip(indices, reduced):
                results[index] = gradient
        return results

    def _bucket(self, index: int, count: int, variable: Any) -> Any:
        """Gradients of one bucket are reduced by one op, as a group. In a graph each gradient without a group has its own op,
        which starts while the backward pass goes on. Without a graph ops block, so all gradients share one."""
        if _key(variable) in self._group_of:
            return "group", self._group_of[_key(variable)]
        if self._num_groups:
            return "part", index * min(self._num_groups, count) // count
        return "all" if tf.executing_eagerly() else index

    def _scaled(self, gradient: Any) -> Any:
        if not self._scale_local:
            return gradient
        factor = 1.0 / self.process_set.size()
        if isinstance(gradient, tf.IndexedSlices):
            return tf.IndexedSlices(gradient.values * tf.cast(factor, gradient.values.dtype), gradient.indices, gradient.dense_shape)
        return gradient * tf.cast(factor, gradient.dtype)


def _key(variable: Any) -> Any:
    """Equal for two objects that stand for one variable: Keras wraps a TensorFlow variable in one of its own."""
    return id(getattr(variable, "_value", variable) if not isinstance(variable, tf.Variable) else variable)
