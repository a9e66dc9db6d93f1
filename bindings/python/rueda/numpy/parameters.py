"""Broadcasts the parameters of a model that is made of arrays."""

from typing import Any

import numpy

from rueda.numpy.elementwise import broadcast_async_
from rueda.operations import root_of
from rueda.process_sets import ProcessSet, global_process_set, ranks_of
from rueda.session import current
from rueda.trees import named_tensors, nested


def broadcast_parameters(params: Any, root_rank: int, process_set: ProcessSet = global_process_set) -> None:
    """Overwrites the parameters of every rank with the root's. Blocks.

    params: nested dicts and lists of writeable arrays, or pairs (name, array), with the same structure on all ranks. An
    array with gaps in its memory goes through a contiguous copy. Raises ValueError if `params` is or holds anything
    else.
    """
    root_rank = root_of(root_rank)
    space = current().next_call_space("broadcast_parameters", ranks_of(process_set))
    handles = []
    for name, array in named_tensors(numpy.ndarray, space + "parameter", nested(params, "a dict or a list of arrays")):
        if not array.flags.writeable:
            raise ValueError(f"{name} is read-only, so the root's values cannot be written into it; give a copy")
        handles.append((broadcast_async_(numpy.ascontiguousarray(array).reshape(array.shape), root_rank, name, process_set), array))
    for handle, array in handles:
        received = handle.wait()
        if not numpy.shares_memory(received, array):
            array[...] = received
