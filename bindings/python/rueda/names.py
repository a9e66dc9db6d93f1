"""Refuses a name that this rank has given to another operation, until it has seen an operation end.

The library refuses a name as long as an operation of that name is in flight. How long that is depends on the other
ranks. A program that begins two operations of one name would be refused on a rank that is ahead; on a rank that is
behind, the first could have ended already, and the second would wait for partners that were refused it. So a name that
Python was given stays taken until this rank has seen an operation end: a wait has returned, or poll() was true. Whether
a second operation is refused then follows from the program's own calls, which are the same on all ranks.
"""

from typing import Any, Optional, Sequence, Tuple

from rueda._native import lib

_KINDS = {lib.RUEDA_PY_ALLREDUCE: "allreduce", lib.RUEDA_PY_BROADCAST: "broadcast", lib.RUEDA_PY_REDUCE: "reduce",
          lib.RUEDA_PY_ALLGATHER: "allgather", lib.RUEDA_PY_ALLTOALL: "alltoall", lib.RUEDA_PY_GATHER: "gather",
          lib.RUEDA_PY_SCATTER: "scatter", lib.RUEDA_PY_REDUCESCATTER: "reducescatter"}  # fmt: skip

# A name and the number of a process set.
Key = Tuple[bytes, int]


def claim(session: Any, name: Any, options: Any, tensors: Optional[int] = None) -> Sequence[Key]:
    """What Handle takes for the names of an operation that is about to be enqueued. name: as encode_name() returns it.
    tensors: their number in a group, in which each tensor has its own name.

    Raises ValueError if this rank has begun an operation of such a name and has seen none end since.
    """
    if type(name) is not bytes:
        return ()
    number = options.process_set
    keys: Sequence[Key] = ((name, number),) if tensors is None else [(b"%b.%d" % (name, index), number) for index in range(tensors)]
    for key in keys:
        if key in session.unwaited:
            raise ValueError(f'{_KINDS[options.kind]} "{key[0].decode()}": this name is taken in process set {number}: this rank has begun '
                             "an operation of this name and has waited for none since; wait for it or use another name")  # fmt: skip
    return keys
