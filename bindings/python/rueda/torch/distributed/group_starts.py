"""How a process group begins operations: options, timeouts, names, works, and several operations under one work."""

import threading
from datetime import timedelta
from typing import Any, Callable, ContextManager, Dict, List, Optional, Sequence

import torch

from rueda import operations, session
from rueda.handles import Handle
from rueda.operations import ALLREDUCE, encode_name
from rueda.process_sets import ProcessSet, id_of
from rueda.torch import graphs
from rueda.torch.asynchronous import barrier_async, start_in_place
from rueda.torch.distributed import callbacks
from rueda.torch.distributed import group_arguments as arguments
from rueda.torch.distributed.group_identity import NamedGroup
from rueda.torch.distributed.work import Completer, RuedaWork


class StartingGroup(NamedGroup):
    """The part of a process group that turns a call into an operation of its process set and a work.

    `_ranks` maps ranks of the group to ranks of the job. RuedaGroup sets `_set` once the process set exists.
    """

    _set: ProcessSet

    def __init__(self, options: Any, ranks: List[int], identity: str):
        """options: PyTorch's. ranks: of the job. identity: tells the group from others, the same on all members."""
        super().__init__(options)
        self._ranks = ranks
        self.set_timeout(options.timeout)
        self._completer = Completer()
        self._begin: Callable[[], ContextManager[callbacks.Begun]] = callbacks.Names(identity).begin
        self._coalesced: Dict[int, List[RuedaWork]] = {}  # works since _start_coalescing(), by thread

    def set_timeout(self, timeout: timedelta) -> None:
        """Limits the operations that begin from now on. One that not all ranks have begun by then fails on all of them;
        one that runs for longer ends the job. RUEDA_TIMEOUT_SECONDS applies instead if it is smaller."""
        self._limit = arguments.allowed(timeout)

    _set_default_timeout = set_timeout

    def _start_coalescing(self, device: Any = None) -> None:
        """Operations between this and _end_coalescing() are enqueued one by one: the library batches what waits
        together."""
        self._coalesced[threading.get_ident()] = []

    def _end_coalescing(self, device: Any = None) -> RuedaWork:
        return self._joined(self._coalesced.pop(threading.get_ident(), []), [])

    def _work(self, start: Callable[[Optional[str]], Handle], results: List[torch.Tensor],
              finish: Optional[Callable[[], None]] = None, given: Sequence[Any] = ()) -> RuedaWork:
        """The work of an operation that `start` enqueues under a name. given: PyTorch's options or times; the first
        timeout in them replaces the group's."""
        limit = arguments.seconds_of(*given, otherwise=self._limit)
        self._begun += 1
        return self._noted(RuedaWork(self._completer, self._begin, start, results, finish, limit=limit))

    def _noted(self, work: RuedaWork) -> RuedaWork:
        if self._coalesced:
            self._coalesced.get(threading.get_ident(), []).append(work)
        return work

    def _joined(self, works: List[RuedaWork], results: Any, opts: Any = None) -> RuedaWork:
        """One work for several. It is a barrier behind them, and its wait also waits for all of them."""
        return self._work(self._barrier, list(results), given=(opts,)).behind(works)

    def _barrier(self, name: Optional[str]) -> Handle:
        """Ends once all ranks have begun it. Without a name it also ends after everything that all ranks began before
        it."""
        if name is None:
            return barrier_async(self._set)
        return start_in_place(session.current(), encode_name(name), self._options(ALLREDUCE, operations.Sum), torch.zeros(1))

    def _options(self, kind: int, op: int = 0, root: Optional[int] = None, rank: int = 0) -> operations.Options:
        """root: a rank of the group. rank: of the job, if there is no root."""
        return operations.make_options(kind, id_of(self._set), op, rank if root is None else self._job_rank(root))

    def _job_rank(self, rank: int) -> int:
        """The rank of the job that a rank of the group is. Raises ValueError if the group does not have it."""
        if not 0 <= rank < self._own_size:
            raise ValueError(f"rank {rank} is not in this group; its ranks are 0 to {self._own_size - 1}")
        return self._ranks[rank]


graphs.leave_alone(StartingGroup)
