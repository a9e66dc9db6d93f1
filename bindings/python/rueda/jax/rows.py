"""Broadcast, all-gather and all-to-all. Shapes of results are known when a program is traced, so numbers of rows that
differ between ranks have to be given.

Gradients are those of the sum of all ranks' losses: of a broadcast, the sum of the cotangents on the root and zero on
the others; of an all-gather, the sum of the cotangents of this rank's rows; of an all-to-all, the cotangents sent back.
"""

import operator
from typing import Any, List, Optional, Sequence

import jax.numpy as jnp

from rueda import operations, session
from rueda.jax import calls
from rueda.jax.calls import ALLGATHER, ALLREDUCE, ALLTOALL, BROADCAST, REDUCESCATTER, Kind
from rueda.jax.reductions import rows_of, with_gradient
from rueda.operations import Sum
from rueda.process_sets import ProcessSet, global_process_set, ranks_of


def broadcast_group(values: Sequence[Any], root_rank: Any, names: Optional[Sequence[Any]], process_set: ProcessSet) -> List[Any]:
    """A broadcast of several arrays in one call, as one group."""
    root = operations.root_of(root_rank)
    kind = Kind(BROADCAST, process_set, root=root)
    arrays, given, traced = calls.prepare(kind, values, names)
    if not traced:
        return calls.run(kind, arrays, given, False) if arrays else []

    def backward(inputs: List[Any], results: List[Any], cotangents: List[Any], real: Sequence[int]) -> List[Any]:
        totals = calls.start(Kind(ALLREDUCE, process_set, Sum), cotangents, [given[index] + ".grad" for index in real])
        return totals if session.rank() == root else [jnp.zeros_like(total) for total in totals]

    return with_gradient(lambda inputs: calls.start(kind, inputs, given), backward, arrays) if arrays else []


def broadcast(x: Any, root_rank: int, *, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Any:
    """Returns the root's array on every rank. All ranks give an array of the root's shape and dtype.

    root_rank: a rank of the job, even within a process set. name: as for allreduce().
    """
    return broadcast_group([x], root_rank, None if name is None else [name], process_set)[0]


def _counts(what: str, given: Any, ranks: int) -> List[int]:
    try:
        counts = [operator.index(count) for count in given]
    except TypeError:
        counts = []
    if len(counts) != ranks or any(count < 0 for count in counts):
        raise ValueError(f"{what}={given!r:.80}: give {ranks} whole numbers of rows, one for each rank")
    return counts


def allgather(x: Any, *, name: Optional[str] = None, rows: Optional[Sequence[int]] = None,
              process_set: ProcessSet = global_process_set) -> Any:
    """Concatenates the rows of all ranks, in the order of ranks.

    rows: the number of rows that each rank of the set gives, the same list on all of them; None if all give as many as
    this rank. An array without dimensions is one row. Under vmap each element is an operation. Ends in ValueError if a rank
    gives another number of rows.
    """
    kind = Kind(ALLGATHER, process_set)
    (array,), given, traced = calls.prepare(kind, [x], None if name is None else [name])
    array = array.reshape(1) if array.ndim == 0 else array
    ranks = len(ranks_of(process_set))
    counts = [array.shape[0]] * ranks if rows is None else _counts("rows", rows, ranks)
    position = process_set.rank()
    if counts[position] != array.shape[0]:
        raise ValueError(f"rows={counts}: {counts[position]} for this rank, but its array has {array.shape[0]} rows")
    shape = (sum(counts),) + array.shape[1:]
    if not traced:
        return calls.run(kind, [array], given, False, [shape])[0]
    first = sum(counts[:position])

    def backward(inputs: List[Any], results: List[Any], cotangents: List[Any], real: Sequence[int]) -> List[Any]:
        wanted = [given[0] + ".grad"]
        if counts == rows_of(process_set, shape[0]):
            return calls.start(Kind(REDUCESCATTER, process_set, Sum), cotangents, wanted, [array.shape])
        total = calls.start(Kind(ALLREDUCE, process_set, Sum), cotangents, wanted)[0]
        return [total[first : first + counts[position]]]

    return with_gradient(lambda inputs: calls.start(kind, inputs, given, [shape]), backward, [array])[0]


def alltoall(x: Any, *, splits: Optional[Sequence[int]] = None, received_splits: Optional[Sequence[int]] = None,
             name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Any:
    """Sends the next splits[r] rows to each rank r of the set. The result is the rows received, in the order of ranks.

    splits: None gives every rank the same number of rows. Otherwise received_splits says how many rows come from each
    rank, since the shape of the result has to be known. Under vmap each element is an operation.
    """
    ranks = len(ranks_of(process_set))
    if (splits is None) != (received_splits is None):
        raise ValueError("give both splits= and received_splits=, or none of them: the shape of the result has to be known")
    (array,), given, traced = calls.prepare(Kind(ALLTOALL, process_set), [x], None if name is None else [name])
    if array.ndim == 0:
        raise ValueError("an all-to-all exchanges rows, and an array of no dimension has none")
    if splits is None and array.shape[0] % ranks:
        raise ValueError(f"{array.shape[0]} rows cannot be dealt out evenly to {ranks} ranks; give splits= and received_splits=")
    sent = [array.shape[0] // ranks] * ranks if splits is None else _counts("splits", splits, ranks)
    received = sent if received_splits is None else _counts("received_splits", received_splits, ranks)
    if sum(sent) != array.shape[0]:
        raise ValueError(f"splits={sent} add up to {sum(sent)}, but the array has {array.shape[0]} rows")
    there = Kind(ALLTOALL, process_set, splits=",".join(map(str, sent)))
    back = Kind(ALLTOALL, process_set, splits=",".join(map(str, received)))
    shape = (sum(received),) + array.shape[1:]
    if not traced:
        return calls.run(there, [array], given, False, [shape])[0]

    def backward(inputs: List[Any], results: List[Any], cotangents: List[Any], real: Sequence[int]) -> List[Any]:
        return calls.start(back, cotangents, [given[0] + ".grad"], [array.shape])

    return with_gradient(lambda inputs: calls.start(there, inputs, given, [shape]), backward, [array])[0]
