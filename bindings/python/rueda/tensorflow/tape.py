"""DistributedGradientTape(): a gradient tape whose gradients are reduced over the ranks."""

from typing import Any, List, Tuple

from rueda.arguments import local_variables
from rueda.operations import Average
from rueda.process_sets import ProcessSet, global_process_set
from rueda.tensorflow.compression import Compression
from rueda.tensorflow.library import tf
from rueda.tensorflow.reducer import Reducer


class _DistributedTape(tf.GradientTape):
    """A tape that goes on with what another has recorded."""

    def __init__(self, tape: Any, reducer: Reducer):
        self.__dict__.update(tape.__dict__)
        self._rueda = reducer

    def register_local_source(self, source: Any) -> None:
        """Leaves the gradient of a variable on this rank: gradient() does not reduce it."""
        self._rueda.register_local(source)

    def gradient(self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False, **kwargs: Any) -> Any:
        """The gradients of tf.GradientTape, reduced over the ranks.

        use_generic_names: the operations are named after the position of a source and not after the source too; for variables
        whose names differ between ranks. kwargs: of tf.GradientTape.gradient().
        """
        found = super().gradient(target, sources, output_gradients, **kwargs)
        flat = self._rueda.reduce(_flat(found), _flat(sources), use_generic_names)
        return tf.nest.pack_sequence_as(found, flat) if isinstance(found, (list, tuple, dict)) else flat[0]

    def get_local_and_global_gradients(self, grads: Any, sources: Any) -> Tuple[List[Any], List[Any]]:
        """Divides gradients into those of local sources and the others. Returns two lists of pairs (gradient, source)."""
        pairs = list(zip(grads, sources))
        is_local = [self._rueda.is_local(source) for source in sources]
        return ([pair for pair, local in zip(pairs, is_local) if local], [pair for pair, local in zip(pairs, is_local) if not local])


def _flat(value: Any) -> List[Any]:
    """The entries of nested lists, tuples and dicts in TensorFlow's order; IndexedSlices are entries."""
    if isinstance(value, dict):
        return [entry for key in sorted(value) for entry in _flat(value[key])]
    return [entry for part in value for entry in _flat(part)] if isinstance(value, (list, tuple)) else [value]


def DistributedGradientTape(gradtape: Any, device_dense: str = "", device_sparse: str = "", compression: Any = Compression.none,
                            sparse_as_dense: bool = False, op: int = Average, gradient_predivide_factor: float = 1.0,
                            num_groups: int = 0, groups: Any = None, process_set: ProcessSet = global_process_set,
                            scale_local_gradients: bool = True) -> Any:
    """A tf.GradientTape with what `gradtape` has recorded or will record, whose gradient() reduces over the ranks.

    device_dense, device_sparse: ignored. The other arguments: as for DistributedOptimizer(). Raises ValueError if
    `gradtape` is not a tf.GradientTape.
    """
    if not isinstance(gradtape, tf.GradientTape):
        raise ValueError(f"DistributedGradientTape({gradtape!r:.60}): give a tf.GradientTape, not a {type(gradtape).__name__}")
    reducer = Reducer("DistributedGradientTape", compression, sparse_as_dense, op, gradient_predivide_factor, num_groups, groups,
                      process_set, scale_local_gradients)  # fmt: skip
    return _DistributedTape(gradtape, reducer)


def PartialDistributedGradientTape(gradtape: Any, device_dense: str = "", device_sparse: str = "", compression: Any = Compression.none,
                                   sparse_as_dense: bool = False, op: int = Average, gradient_predivide_factor: float = 1.0,
                                   num_groups: int = 0, groups: Any = None, process_set: ProcessSet = global_process_set,
                                   local_layers: Any = None, scale_local_gradients: bool = True) -> Any:
    """DistributedGradientTape() that leaves the gradients of the layers `local_layers`, a layer or a list, on each rank."""
    tape = DistributedGradientTape(gradtape, device_dense, device_sparse, compression, sparse_as_dense, op, gradient_predivide_factor,
                                   num_groups, groups, process_set, scale_local_gradients)  # fmt: skip
    for variable in local_variables(local_layers):
        tape.register_local_source(variable)
    return tape
