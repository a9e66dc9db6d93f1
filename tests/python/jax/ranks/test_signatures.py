"""The positional arguments of the public functions: scripts give them in this order. A new function needs its line here."""

import pathlib
import sys

import rueda.jax as hvd

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
from signatures import orders

ORDERS = {
    "Compression": "",
    "DistributedOptimizer": "optimizer name backward_passes_per_step",
    "allgather": "x",
    "allreduce": "x op",
    "allreduce_tree": "tree name op",
    "alltoall": "x",
    "barrier": "process_set",
    "broadcast": "x root_rank",
    "broadcast_tree": "tree root_rank",
    "drain": "patience",
    "error_of": "error",
    "grouped_allreduce": "xs op",
    "join": "process_set",
    "reducescatter": "x op",
}  # fmt: skip


def test_positional_arguments_come_in_the_documented_order():
    assert orders(hvd) == ORDERS
