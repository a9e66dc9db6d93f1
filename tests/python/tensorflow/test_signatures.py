"""The positional arguments of the public functions: scripts give them in this order. A new function needs its line here."""

import pathlib
import sys

import rueda.tensorflow as hvd

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from signatures import orders

ORDERS = {
    "BroadcastGlobalVariablesHook": "root_rank device",
    "Compression": "",
    "DistributedGradientTape": "gradtape device_dense device_sparse compression sparse_as_dense "
    "op gradient_predivide_factor num_groups groups process_set scale_local_gradients",
    "DistributedOptimizer": "optimizer name use_locking device_dense device_sparse compression sparse_as_dense "
    "backward_passes_per_step op gradient_predivide_factor average_aggregated_gradients num_groups groups process_set scale_local_gradients",
    "PartialDistributedGradientTape": "gradtape device_dense device_sparse compression sparse_as_dense op "
    "gradient_predivide_factor num_groups groups process_set local_layers scale_local_gradients",
    "SyncBatchNormalization": "fused",
    "_executing_eagerly": "",
    "allgather": "tensor name ignore_name_scope process_set",
    "allreduce": "tensor average device_dense device_sparse compression op prescale_factor postscale_factor name process_set ignore_name_scope",
    "alltoall": "tensor splits name ignore_name_scope process_set",
    "barrier": "process_set",
    "broadcast": "tensor root_rank name ignore_name_scope process_set",
    "broadcast_": "variables root_rank name process_set",
    "broadcast_global_variables": "root_rank",
    "broadcast_object_fn": "root_rank session name process_set",
    "broadcast_variables": "variables root_rank process_set inplace",
    "gpu_available": "",
    "grouped_allgather": "tensors name ignore_name_scope process_set",
    "grouped_allreduce": "tensors average device_dense device_sparse compression "
    "op prescale_factor postscale_factor process_set ignore_name_scope name",
    "grouped_reducescatter": "tensors device_dense compression op process_set prescale_factor postscale_factor",
    "join": "",
    "local_rank_op": "name",
    "local_size_op": "name",
    "process_set_included_op": "process_set_id name",
    "rank_op": "name",
    "reducescatter": "tensor device_dense compression op name process_set ignore_name_scope prescale_factor postscale_factor",
    "size_op": "process_set_id name",
}  # fmt: skip


def test_positional_arguments_come_in_the_documented_order():
    assert orders(hvd) == ORDERS
