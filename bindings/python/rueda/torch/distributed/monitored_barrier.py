"""torch.distributed.monitored_barrier() for groups of Rueda's: a barrier with an error that names the missing ranks.

The first rank of the group, its caller, hears from every other rank and answers all of them:

    others   ── here ──▶   caller      one byte; the send ends once the caller receives, so once it has come, too
    others   ◀─ missing ─  caller      one byte for each rank, 1 if that rank did not come in time
"""

import functools
import time
from datetime import timedelta
from typing import Any, List

import torch
import torch.distributed.distributed_c10d as c10d

from rueda import errors
from rueda._native import lib
from rueda.operations import RECV, SEND, make_options
from rueda.process_sets import ProcessSet, id_of
from rueda.session import current
from rueda.torch.messages import start_message


_LEAST_LIMIT = 600.0  # seconds after which a message to a rank that never comes fails


def install() -> None:
    """Makes torch.distributed.monitored_barrier() call RuedaGroup.monitored_barrier() for groups of this backend."""
    original = c10d.monitored_barrier
    if hasattr(original, "serves_rueda"):
        return

    @functools.wraps(original)
    def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        chosen = c10d._get_default_group() if group is None else group
        if getattr(chosen, "getBackendName", lambda: "")() != "rueda":
            original(group, timeout, wait_all_ranks)
            return
        if timeout is None:
            timeout = c10d.default_pg_timeout
        chosen.monitored_barrier(timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout), wait_all_ranks)

    monitored_barrier.serves_rueda = True
    torch.distributed.monitored_barrier = c10d.monitored_barrier = monitored_barrier


def wait_for_all(name: str, process_set: ProcessSet, seconds: float) -> None:
    """Waits until all ranks of the set have called this with the same name. A name is used once.

    Raises TimeoutError if some ranks did not call within `seconds`; the sentence names them by their ranks in the job.
    The caller raises it after its own `seconds`, the others at most `seconds` later. A rank that comes after that
    raises it, too.
    """
    ranks = process_set.ranks or []
    caller = ranks[0]
    try:
        lib.rueda_py_limit(max(_LEAST_LIMIT, 4 * seconds))
        late = _hear(name, process_set, seconds) if current().rank == caller else _ask(name, process_set, caller, seconds)
    finally:
        lib.rueda_py_limit(0.0)
    if late:
        raise errors.CollectiveTimeoutError(f"monitored_barrier: of the ranks {ranks} of this group {late} did not come within "
                                            f"{seconds:g} s of rank {caller}", lib.RUEDA_TIMEOUT)  # fmt: skip


def _message(kind: int, tensor: torch.Tensor, peer: int, name: str, process_set: ProcessSet) -> Any:
    return start_message(current(), name.encode(), make_options(kind, id_of(process_set), rank=peer), tensor)


def _hear(name: str, process_set: ProcessSet, seconds: float) -> List[int]:
    """On the caller: hears from the other ranks, and tells each of them which ranks are missing. Returns these."""
    ranks = process_set.ranks or []
    late = _missing(name, process_set, time.monotonic() + seconds)
    verdict = torch.tensor([rank in late for rank in ranks], dtype=torch.uint8)
    answers = [_message(SEND, verdict, rank, name + ".missing", process_set) for rank in ranks[1:]]
    for rank, answer in zip(ranks[1:], answers):
        if rank not in late:
            answer.wait()
    return late


def _missing(name: str, process_set: ProcessSet, deadline: float) -> List[int]:
    """The ranks that the caller has not heard from by the deadline, a time.monotonic()."""
    calls = {
        rank: _message(RECV, torch.zeros(1, dtype=torch.uint8), rank, name + ".here", process_set)
        for rank in (process_set.ranks or [])[1:]
    }
    late = []
    for rank, call in calls.items():
        try:
            call.wait(max(0.0, deadline - time.monotonic()))
        except errors.CollectiveTimeoutError:
            late.append(rank)
    return late


def _ask(name: str, process_set: ProcessSet, caller: int, seconds: float) -> List[int]:
    """On another rank: tells the caller that it is here, and returns the missing ranks of the caller's answer."""
    here = _message(SEND, torch.zeros(1, dtype=torch.uint8), caller, name + ".here", process_set)
    ranks = process_set.ranks or []
    verdict = torch.zeros(len(ranks), dtype=torch.uint8)
    answer = _message(RECV, verdict, caller, name + ".missing", process_set)
    try:
        here.wait(seconds)
    except errors.CollectiveTimeoutError:
        return [caller]
    answer.wait(2 * seconds)
    return [rank for rank, is_late in zip(ranks, verdict.tolist()) if is_late]
