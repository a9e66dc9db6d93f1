"""Moves the values of Keras's variables and metrics between ranks, on any backend."""

from typing import Any, List, Sequence

import numpy

import rueda.numpy as arrays
from rueda.process_sets import ProcessSet, global_process_set
from rueda.session import current


def broadcast_values(variables: Sequence[Any], root_rank: int, process_set: ProcessSet = global_process_set) -> None:
    """Overwrites the variables of every rank with the root's, through host memory."""
    space = current().next_call_space("broadcast_values", process_set.ranks or [])
    handles = []
    for number, variable in enumerate(variables):
        value = as_array(variable)
        handles.append((variable, arrays.broadcast_async(value, root_rank, f"{space}{number}", process_set)))
    for variable, handle in handles:
        variable.assign(handle.wait())


def as_array(value: Any) -> numpy.ndarray:
    """The value of a variable, tensor or number, in host memory."""
    value = getattr(value, "value", value) if not callable(getattr(value, "value", None)) else value
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return numpy.ascontiguousarray(value).reshape(numpy.shape(value))


def means(values: List[float]) -> List[float]:
    """The mean over the ranks of each number."""
    return arrays.allreduce(numpy.array(values, numpy.float64)).tolist() if values else []


def variables_of(value: Any) -> List[Any]:
    """The variables of an optimizer: a list in all but the oldest optimizers of Keras 2, there a method."""
    found = value.variables
    return list(found() if callable(found) and not isinstance(found, list) else found)
