"""DistributedOptimizer() for optimizers of tf.keras."""

from typing import Any

from rueda.arguments import local_variables
from rueda.keras.settings import Settings
from rueda.keras.wrapping import wrap
from rueda.operations import Average
from rueda.process_sets import ProcessSet, global_process_set
from rueda.tensorflow.compression import Compression


def DistributedOptimizer(optimizer: Any, name: Any = None, device_dense: str = "", device_sparse: str = "",
                         compression: Any = Compression.none, sparse_as_dense: bool = False, gradient_predivide_factor: float = 1.0,
                         op: int = Average, backward_passes_per_step: int = 1, average_aggregated_gradients: bool = False,
                         num_groups: int = 0, groups: Any = None, process_set: ProcessSet = global_process_set,
                         scale_local_gradients: bool = True) -> Any:
    """An optimizer with the configuration of the given one, which reduces gradients over the ranks before it applies them.

    Give it the optimizer before that has taken a step. name: begins the operations' names. The other arguments, and what is
    raised: as rueda.tensorflow.DistributedOptimizer() says.
    """
    settings = Settings(name or "Distributed" + type(optimizer).__name__, compression, sparse_as_dense, op, gradient_predivide_factor,
                        backward_passes_per_step, average_aggregated_gradients, num_groups, groups, process_set,
                        scale_local_gradients)  # fmt: skip
    return wrap(optimizer, settings)


def PartialDistributedOptimizer(optimizer: Any, name: Any = None, device_dense: str = "", device_sparse: str = "",
                                compression: Any = Compression.none, sparse_as_dense: bool = False,
                                gradient_predivide_factor: float = 1.0, op: int = Average, backward_passes_per_step: int = 1,
                                average_aggregated_gradients: bool = False, groups: Any = None,
                                process_set: ProcessSet = global_process_set, local_layers: Any = None,
                                scale_local_gradients: bool = True) -> Any:
    """DistributedOptimizer() that leaves the gradients of the layers `local_layers`, a layer or a list, on each rank."""
    made = DistributedOptimizer(optimizer, name, device_dense, device_sparse, compression, sparse_as_dense, gradient_predivide_factor, op,
                                backward_passes_per_step, average_aggregated_gradients, 0, groups, process_set,
                                scale_local_gradients)  # fmt: skip
    for variable in local_variables(local_layers):
        made.register_local_var(variable)
    return made
