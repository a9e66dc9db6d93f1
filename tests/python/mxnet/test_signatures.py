"""The positional arguments of the public functions: scripts give them in this order. A new function needs its line here."""

import inspect

import rueda.mxnet as hvd
from rueda import shared

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


def positional(function):
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return " ".join(name for name, each in inspect.signature(function).parameters.items() if each.kind in kinds)


def of_its_own(binding):
    """The binding's functions and classes but for those that all bindings share."""
    return {name: getattr(binding, name) for name in set(binding.__all__) - set(shared.__all__) if callable(getattr(binding, name))}


def test_positional_arguments_come_in_the_documented_order():
    assert {name: positional(function) for name, function in of_its_own(hvd).items()} == ORDERS
