"""The positional arguments of the public functions: scripts give them in this order. A new function needs its line here."""

import pathlib
import sys

import pytest

import rueda.keras
import rueda.tensorflow.keras as hvd

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from signatures import orders

ORDERS = {
    "Compression": "",
    "PartialDistributedOptimizer": "optimizer name device_dense device_sparse compression sparse_as_dense gradient_predivide_factor "
    "op backward_passes_per_step average_aggregated_gradients groups process_set local_layers scale_local_gradients",
    "allgather": "value name",
    "allreduce": "value name average prescale_factor postscale_factor op compression",
    "broadcast": "value root_rank name",
    "broadcast_global_variables": "root_rank",
    "load_model": "filepath custom_optimizers custom_objects compression legacy_opts",
    "reducescatter": "value name op",
}  # fmt: skip

OPTIMIZER = {
    "DistributedOptimizer": "optimizer name device_dense device_sparse compression sparse_as_dense gradient_predivide_factor op num_groups groups",
}  # fmt: skip

OPTIMIZER_OF_TENSORFLOW = {
    "DistributedOptimizer": "optimizer name device_dense device_sparse compression sparse_as_dense gradient_predivide_factor "
    "op backward_passes_per_step average_aggregated_gradients num_groups groups process_set scale_local_gradients",
}  # fmt: skip


@pytest.mark.parametrize("binding, optimizer", [(rueda.keras, OPTIMIZER), (hvd, OPTIMIZER_OF_TENSORFLOW)],
                         ids=["rueda.keras", "rueda.tensorflow.keras"])  # fmt: skip
def test_positional_arguments_come_in_the_documented_order(binding, optimizer):
    assert orders(binding) == {**ORDERS, **optimizer}
