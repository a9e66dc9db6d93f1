"""The positional arguments of the public functions: scripts give them in this order. A new function needs its line here."""

import pathlib
import sys

import rueda.mxnet as hvd

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from signatures import orders

ORDERS = {
    "Compression": "",
    "DistributedOptimizer": "optimizer gradient_predivide_factor num_groups process_set",
    "DistributedTrainer": "params optimizer optimizer_params compression gradient_predivide_factor prefix num_groups process_set",
    "allgather": "tensor name priority process_set",
    "allreduce": "tensor average name priority prescale_factor postscale_factor process_set op",
    "allreduce_": "tensor average name priority prescale_factor postscale_factor process_set op",
    "alltoall": "tensor splits name priority process_set",
    "barrier": "process_set",
    "broadcast": "tensor root_rank name priority process_set",
    "broadcast_": "tensor root_rank name priority process_set",
    "broadcast_parameters": "params root_rank prefix",
    "grouped_allgather": "tensors name priority process_set",
    "grouped_allreduce": "tensors average name priority prescale_factor postscale_factor process_set op",
    "grouped_allreduce_": "tensors average name priority prescale_factor postscale_factor process_set op",
    "grouped_reducescatter": "tensors op name priority process_set prescale_factor postscale_factor",
    "join": "process_set",
    "reducescatter": "tensor op name priority process_set prescale_factor postscale_factor",
}  # fmt: skip


def test_positional_arguments_come_in_the_documented_order():
    assert orders(hvd) == ORDERS
