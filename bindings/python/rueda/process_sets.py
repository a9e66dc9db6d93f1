"""Process sets: groups of ranks that run operations among themselves."""

import contextlib
from typing import Any, List, Optional

from rueda import errors, operations, session
from rueda._native import ffi, lib
from rueda.arguments import whole_number


class ProcessSet:
    """Some ranks of the job, the members. An operation with process_set=... runs among them alone.

    The set belongs to the job from add_process_set() or init(process_sets=[...]) until remove_process_set() or
    shutdown(). Any thread may use it. ranks_or_comm: the ranks, each once, in any order. Raises ValueError if that is
    not a list of ranks.
    """

    def __init__(self, ranks_or_comm: Any):
        if not isinstance(ranks_or_comm, (list, tuple, range)):
            raise ValueError(f"ProcessSet({ranks_or_comm!r}): give a list of ranks")
        self._ranks = sorted(whole_number("a rank of a process set", rank, 0) for rank in ranks_or_comm)
        if len(set(self._ranks)) != len(self._ranks):
            raise ValueError(f"ProcessSet({ranks_or_comm!r}): a rank is listed twice")
        self._given = self._ranks  # what the program gave; _ranks follows the members from plan to plan
        self._number: Optional[int] = None
        self._session: Optional[session.Session] = None
        self.mpi_comm = None

    @property
    def process_set_id(self) -> Optional[int]:
        """The number of the set, which may differ between ranks; None as long as the set belongs to no job."""
        return self._number if self._session is not None and session.is_known(self._session) else None

    @property
    def ranks(self) -> Optional[List[int]]:
        """The members as ranks of the job, in ascending order."""
        return self._ranks

    def size(self) -> Optional[int]:
        """The number of members; None as long as the set belongs to no job."""
        return None if self.process_set_id is None else len(self.ranks or ())

    def rank(self) -> Optional[int]:
        """This rank's position among the members, -1 if it is not a member; None as long as the set belongs to no job.
        """
        if self.process_set_id is None:
            return None
        return self.ranks.index(session.rank()) if self.included() else -1

    def included(self) -> Optional[bool]:
        """Returns whether this rank is a member; None as long as the set belongs to no job."""
        return None if self.process_set_id is None else session.rank() in self.ranks

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


class _AllRanks(ProcessSet):
    """The set of all ranks of the job that this process is in, if any."""

    def __init__(self) -> None:
        super().__init__([])

    @property
    def process_set_id(self) -> int:
        return 0

    @property
    def ranks(self) -> Optional[List[int]]:
        return list(range(session.size())) if session.is_initialized() else None

    def size(self) -> int:
        return session.size()

    def rank(self) -> int:
        return session.rank()

    def included(self) -> bool:
        return session.is_initialized()


global_process_set = _AllRanks()
of_init: List[ProcessSet] = []  # those that the present session began with, in the order of their numbers from 1


def follow(process_set: ProcessSet, number: int, to: session.Session) -> None:
    """Lets a set of of_init belong to a session, as set `number`, with the ranks that its members have there. In an elastic
    job it was given in ranks of the first plan, which are the numbers of workers. If some members have left, the others
    remain here; the library refuses operations in the set, and names one that has left."""
    ranks, count = ffi.new("int32_t[]", to.size), ffi.new("size_t*")
    if lib.rueda_process_set_ranks(to.local, number, ranks, to.size, count) == lib.RUEDA_OK:
        process_set._ranks = list(ranks[0 : count[0]])
    else:
        process_set._ranks = [rank for rank in range(to.size) if lib.rueda_worker_at(to.local, rank) in process_set._given]
    process_set._number, process_set._session = number, to


def id_of(process_set: ProcessSet) -> int:
    """The number of the set in this job. Raises ValueError if it belongs to no job, or is not a ProcessSet."""
    try:
        number = process_set.process_set_id
    except AttributeError:
        raise ValueError(f"process_set={process_set!r:.60}: give a ProcessSet, such as global_process_set") from None
    if number is None:
        raise ValueError(f"{process_set} belongs to no job; call add_process_set() on all its ranks")
    return number


def ranks_of(process_set: ProcessSet) -> List[int]:
    """The members of a set of this job. Raises ValueError as id_of() does."""
    id_of(process_set)
    return process_set.ranks or []


def add_process_set(process_set: Any, name: Optional[str] = None) -> ProcessSet:
    """Makes the set part of the job and returns it. All members call this; other ranks may. Never blocks.

    process_set: a ProcessSet or a list of ranks. name: the same on all members. Sets without a name are matched by
    their ranks: the first set of some ranks on one member is the first set of these ranks on the others.

    Raises ValueError if there are no ranks, if a rank is listed twice or is not in the job, if the set is part of the
    job already, if RUEDA_DYNAMIC_PROCESS_SETS is 0, or if UTF-8 cannot encode the name or it holds a NUL.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.process_set_id is not None:
        raise ValueError(f"{process_set} is part of the job already")
    current = session.current()
    number = ffi.new("int32_t*")
    label = operations.encode_name(name)
    ranks = process_set.ranks or []
    errors.check(lib.rueda_process_set_add(current.pointer, len(ranks), ranks, label, number))
    process_set._number, process_set._session = number[0], current
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes the set from the job on this rank; all members do so. Returns False if it was not part of the job, or if
    it is the global set, which stays.

    Waits until devices have finished the operations whose waits have returned. Raises ValueError if other operations of
    this rank are in flight in the set, or if the argument is not a ProcessSet.
    """
    if not isinstance(process_set, ProcessSet):
        raise ValueError(f"remove_process_set({process_set!r}): give a ProcessSet")
    number = process_set.process_set_id
    if not number:
        return False
    here = session.current()
    if lib.rueda_process_set_remove(here.pointer, number) != lib.RUEDA_OK:
        with contextlib.suppress(errors.CollectiveError):  # of a device, which later waits tell of
            here.kept.settle()
        errors.check(lib.rueda_process_set_remove(here.pointer, number))
    process_set._number = process_set._session = None
    return True


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Joins the job, and blocks until all ranks have joined. Does nothing if this process is a rank already.

    In a new worker of an elastic job that runs already it does not block: the worker waits outside, with the rank and size
    that it would have, until elastic.run or elastic.reset() joins the job. Until then the others go on without it.

    comm: which ranks form the job.
        None, an empty list, or a list of all ranks: all of them.
        A list of some ranks, under mpirun only: these are the job, in the list's order, and only they call init().
        An mpi4py communicator: its ranks are the job, in its order. All of them pass it. It may be freed after init().
        For the last two the ranks meet through MPI, which needs the MPI plug-in (docs/guide/under-mpirun.md).
    process_sets: a list of ProcessSet that belong to the job from the start, the same on all ranks. "dynamic" and None
    mean none.

    Raises ValueError if a variable RUEDA_... has a wrong value, which the sentence names, if `comm` is a part of the
    ranks without mpirun, or if a process set is listed twice, is empty, or has a rank that is not in the job. Raises
    NotInitializedError in a process that was forked from a rank; call shutdown() there before it joins another job.
    Raises HorovodInternalError if builds, process sets or settings differ between ranks, and TimeoutError if ranks do
    not come within RUEDA_INIT_TIMEOUT_SECONDS. Raises SystemExit(0) in a new worker of an elastic job that has ended, or goes
    on without it, before the worker could join.
    """
    sets = [] if process_sets is None or process_sets == "dynamic" else list(process_sets)
    if not all(isinstance(process_set, ProcessSet) for process_set in sets):
        raise ValueError(f"init(process_sets={process_sets!r}): give a list of ProcessSet, or 'dynamic'")
    if len({id(process_set) for process_set in sets}) != len(sets):
        raise ValueError(f"init(process_sets={process_sets!r}): a process set is listed twice")
    if session.join(comm, sets=[process_set._given for process_set in sets]):
        of_init[:] = sets
        for number, process_set in enumerate(sets, 1):
            follow(process_set, number, session.current())
    session.current().asked_for = True
