"""DistributedOptimizer() for optimizers of tf.compat.v1; Keras's go to rueda.tensorflow.keras."""

from typing import Any, List, Tuple

from rueda.operations import Average
from rueda.process_sets import ProcessSet, global_process_set
from rueda.tensorflow.accumulation import Accumulator
from rueda.tensorflow.compression import Compression
from rueda.tensorflow.library import tf
from rueda.tensorflow.reducer import Reducer

_V1 = tf.compat.v1.train.Optimizer


class _DistributedV1(_V1):
    """An optimizer of tf.compat.v1 whose compute_gradients() reduces over the ranks. All else is the wrapped one's."""

    def __init__(self, optimizer: Any, name: str, use_locking: bool, reducer: Reducer, passes: int, average_passes: bool):
        super().__init__(name=name, use_locking=use_locking)
        self._optimizer, self._rueda = optimizer, reducer
        self._accumulator = Accumulator(passes, average_passes, reducer.reduce) if passes > 1 else None

    def register_local_var(self, var: Any) -> None:
        """Leaves the gradient of the variable on this rank."""
        self._rueda.register_local(var)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> List[Tuple[Any, Any]]:
        """The wrapped optimizer's gradients, reduced over the ranks."""
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        gradients, variables = [list(each) for each in zip(*pairs)] if pairs else ([], [])
        reduce = self._rueda.reduce if self._accumulator is None else self._accumulator.add
        return list(zip(reduce(gradients, variables), variables))

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: Any = None) -> Any:
        """The wrapped optimizer's step; between the reductions of accumulated gradients, nothing."""
        pairs = list(grads_and_vars)

        def step() -> Any:
            return tf.group(self._optimizer.apply_gradients(pairs, global_step=global_step, name=name))

        return step() if self._accumulator is None else self._accumulator.when_full(step)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the wrapped optimizer's function. So do the next two."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """The names of the wrapped optimizer's slots."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped optimizer's variables."""
        return self._optimizer.variables(*args, **kwargs)


def DistributedOptimizer(optimizer: Any, name: Any = None, use_locking: bool = False, device_dense: str = "", device_sparse: str = "",
                         compression: Any = Compression.none, sparse_as_dense: bool = False, backward_passes_per_step: int = 1,
                         op: int = Average, gradient_predivide_factor: float = 1.0, average_aggregated_gradients: bool = False,
                         num_groups: int = 0, groups: Any = None, process_set: ProcessSet = global_process_set,
                         scale_local_gradients: bool = True) -> Any:
    """An optimizer like the given one, which reduces gradients over the ranks before it applies them.

    optimizer: of tf.compat.v1.train or of Keras. device_dense, device_sparse: ignored. compression: the form in which f32 and
    f64 travel. sparse_as_dense: IndexedSlices are made dense first. backward_passes_per_step: gradients of so many passes are
    added before they are reduced; average_aggregated_gradients divides their sum by that number. gradient_predivide_factor:
    divides before the sum, and multiplies behind it. num_groups, or groups as a list of lists of variables: gradients that
    are reduced together. register_local_var() of the result leaves a variable's gradient on its rank;
    scale_local_gradients divides such gradients by the number of ranks.

    Raises ValueError for a combination that has no meaning, or for an object that is no optimizer.
    """
    if isinstance(backward_passes_per_step, bool) or backward_passes_per_step < 1:
        raise ValueError(f"backward_passes_per_step={backward_passes_per_step}: give a number of at least 1")
    if isinstance(optimizer, _V1):
        name = name or "Distributed" + type(optimizer).__name__
        reducer = Reducer(name, compression, sparse_as_dense, op, gradient_predivide_factor, num_groups, groups, process_set,
                          scale_local_gradients)  # fmt: skip
        return _DistributedV1(optimizer, name, use_locking, reducer, backward_passes_per_step, average_aggregated_gradients)
    from rueda.tensorflow import keras  # imports Keras, which a program without it need not have

    return keras.DistributedOptimizer(optimizer, name, device_dense, device_sparse, compression, sparse_as_dense, gradient_predivide_factor, op,
                                      backward_passes_per_step, average_aggregated_gradients, num_groups, groups, process_set,
                                      scale_local_gradients)  # fmt: skip
