"""Process sets: the ranks that an operation is among."""

from typing import Any, List, Optional

from rueda import errors, operations, session
from rueda._native import ffi, lib
from rueda.arguments import whole_number


class ProcessSet:
    """Some ranks of the job. Operations that name it are among its members alone.

    ranks_or_comm: the ranks, each once; kept in ascending order. It belongs to the job from add_process_set() or
        init(process_sets=[...]) until remove_process_set() or shutdown(); `process_set_id` is its number meanwhile, which is
        this rank's own, and else None.
    """

    def __init__(self, ranks_or_comm: Any):
        if not isinstance(ranks_or_comm, (list, tuple, range)):
            raise ValueError(f"ProcessSet({ranks_or_comm!r}): a list of ranks makes a process set")
        self._ranks = sorted(whole_number("a rank of a process set", rank, 0) for rank in ranks_or_comm)
        if len(set(self._ranks)) != len(self._ranks):
            raise ValueError(f"ProcessSet({ranks_or_comm!r}): a rank is there twice")
        self._number: Optional[int] = None
        self._session: Optional[session.Session] = None
        self.mpi_comm = None

    @property
    def process_set_id(self) -> Optional[int]:
        """Its number in this job, on this rank; None while it belongs to none."""
        return self._number if self._session is not None and session.is_known(self._session) else None

    @property
    def ranks(self) -> Optional[List[int]]:
        """The members, in ascending order."""
        return self._ranks

    def size(self) -> Optional[int]:
        """The number of members; None while the set belongs to no job."""
        return None if self.process_set_id is None else len(self.ranks or ())

    def rank(self) -> Optional[int]:
        """This rank's place among the members, -1 where it is none; None while the set belongs to no job."""
        if self.process_set_id is None:
            return None
        return self.ranks.index(session.rank()) if self.included() else -1

    def included(self) -> Optional[bool]:
        """Whether this rank is a member; None while the set belongs to no job."""
        return None if self.process_set_id is None else session.rank() in self.ranks

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


class _AllRanks(ProcessSet):
    """The set of all ranks of whatever job this process is in."""

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


def id_of(process_set: ProcessSet) -> int:
    """The number of the set in this job. ValueError: it belongs to none, or is no set."""
    try:
        number = process_set.process_set_id
    except AttributeError:
        raise ValueError(f"process_set={process_set!r:.60}: a ProcessSet is needed, such as global_process_set") from None
    if number is None:
        raise ValueError(f"{process_set} belongs to no job: add it with add_process_set() on all its ranks")
    return number


def ranks_of(process_set: ProcessSet) -> List[int]:
    """The ranks of a set of this job. ValueError: as id_of()."""
    id_of(process_set)
    return process_set.ranks or []


def add_process_set(process_set: Any, name: Optional[str] = None) -> ProcessSet:
    """Makes the set part of the job and returns it; never blocks.

    process_set: a ProcessSet or a list of ranks. All members call this, other ranks may, too; a set without a name stands for
        its ranks, and the first of some ranks on one member is the first on the others.
    ValueError: no ranks, a rank outside the job or given twice, the set is part of the job already,
    RUEDA_DYNAMIC_PROCESS_SETS=0; a name that is no UTF-8, or holds a NUL.
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
    """Takes the set out of the job on this rank; all members do so. False: it was not part of the job, or is the global one.

    ValueError: operations of this rank are in flight in it; it is no set.
    """
    if not isinstance(process_set, ProcessSet):
        raise ValueError(f"remove_process_set({process_set!r}): a ProcessSet is needed")
    number = process_set.process_set_id
    if not number:
        return False
    errors.check(lib.rueda_process_set_remove(session.current().pointer, number))
    process_set._number = process_set._session = None
    return True


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Joins the job and waits until all ranks have. Does nothing where that is done already.

    comm: None; a list of all ranks, or of none, says the same. Under mpirun a list of some: these are the job, in the
        list's order, and only they call init(). Elsewhere a part is refused (ValueError): make a process set of it.
        Or a communicator of mpi4py's: its ranks are the job's, in its order. All of its ranks give it; it may be freed
        once init() is over. For both MPI brings the ranks together, which needs the MPI plug-in
        (docs/guide/under-mpirun.md).
    process_sets: sets that are part of the job from the start, the same on all ranks; "dynamic" and None: none.

    ValueError: a variable RUEDA_... is wrong; names it. A process set is given twice, or has no ranks or such as are not of
    the job. NotInitializedError: the process was forked from a rank; shutdown() in it is first, and goes for all that are to be
    another job. HorovodInternalError: ranks that never came (TimeoutError), builds, process sets or settings that differ between
    ranks.
    """
    sets = [] if process_sets is None or process_sets == "dynamic" else list(process_sets)
    if not all(isinstance(process_set, ProcessSet) for process_set in sets):
        raise ValueError(f"init(process_sets={process_sets!r}): a list of ProcessSet, or 'dynamic'")
    if len({id(process_set) for process_set in sets}) != len(sets):
        raise ValueError(f"init(process_sets={process_sets!r}): a process set is there twice")
    if session.join(comm, sets=[process_set.ranks or [] for process_set in sets]):
        for number, process_set in enumerate(sets, 1):
            process_set._number, process_set._session = number, session.current()
    session.current().asked_for = True
