"""The positional arguments of the public functions: scripts give them in this order. A new function needs its line here."""

import inspect

import rueda.jax as hvd
from rueda import shared

ORDERS = {
    "Compression": "",
    "DistributedOptimizer": "optimizer name backward_passes_per_step",
    "allgather": "x",
    "allreduce": "x op",
    "allreduce_tree": "tree op",
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


def positional(function):
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return " ".join(name for name, each in inspect.signature(function).parameters.items() if each.kind in kinds)


def of_its_own(binding):
    """The binding's functions and classes but for those that all bindings share."""
    return {name: getattr(binding, name) for name in set(binding.__all__) - set(shared.__all__) if callable(getattr(binding, name))}


def test_positional_arguments_come_in_the_documented_order():
    assert {name: positional(function) for name, function in of_its_own(hvd).items()} == ORDERS
