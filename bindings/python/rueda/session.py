"""The job that this process is a rank of, and the session that the `hvd` functions share.

`init()` (rueda/process_sets.py) makes the session, `shutdown()` ends it, any number of times. A process that exits without shutdown() ends it by
itself. One that is forked from a rank is no rank: rank(), size() and the like answer there as in the rank, for the workers of
data loaders; what would take part in the job raises.
"""

import atexit
import collections
import ctypes
import itertools
import os
import sys
import threading
from typing import Any, Dict, List, Optional, Sequence

from rueda import activity, errors
from rueda._native import ffi, lib


class _Joining:
    """rueda_init on a thread of its own, so that signals are handled where one waits for it. Given up, it goes on until it
    has an end, and says goodbye at once where it succeeds."""

    _last: Optional["_Joining"] = None

    def __init__(self, options: Any):
        if _Joining._last is not None:  # one given up; its rank would be there twice
            _Joining._last._ended.wait()
        self._options = options
        self._pointer: Any = None
        self._error: Optional[BaseException] = None
        self._given_up = False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        _Joining._last = self
        threading.Thread(target=self._run, name="rueda-init", daemon=True).start()

    def _run(self) -> None:
        place = ffi.new("rueda_session**")
        try:
            errors.check(lib.rueda_init(ffi.NULL if self._options is None else self._options.pointer, place))
        except Exception as error:
            self._error = error
        else:
            with self._lock:
                self._pointer = place[0]
                self._leave_if_given_up()
        self._ended.set()

    def _leave_if_given_up(self) -> None:
        if self._given_up and self._pointer is not None:
            lib.rueda_shutdown(self._pointer)

    def wait(self) -> Any:
        """The session's pointer, or what rueda_init failed with."""
        try:
            self._ended.wait()
        except BaseException:
            with self._lock:
                self._given_up = True
                self._leave_if_given_up()
            raise
        _Joining._last = None
        if self._error is not None:
            raise self._error
        return self._pointer


class Session:
    """One rank of one job. Its numbers hold until the end; after `close()` every operation raises."""

    def __init__(self, options: Any = None):
        """options: SessionOptions of rueda/store.py, None for what the environment says."""
        self.asked_for = False  # whether somebody has called init(), and is to call shutdown()
        self.grouped = False  # whether a process group of torch.distributed's has begun it, and lives
        self.sparse: Dict[Any, Any] = {}  # what is remembered of sparse all-reduces, by process set and name
        self.part: List[int] = []  # the ranks of mpirun's that are the job, where it is not all of them
        self.pointer = _Joining(options).wait()
        activity.watch(self.pointer)
        self.process = os.getpid()
        self.rank = lib.rueda_rank(self.pointer)
        self.size = lib.rueda_size(self.pointer)
        self.local_rank = lib.rueda_local_rank(self.pointer)
        self.local_size = lib.rueda_local_size(self.pointer)
        self.cross_rank = lib.rueda_cross_rank(self.pointer)
        self.cross_size = lib.rueda_cross_size(self.pointer)
        self.homogeneous = lib.rueda_is_homogeneous(self.pointer) == 1
        self._name_spaces = collections.defaultdict(itertools.count)
        self.joins = collections.Counter()  # that have ended, by process set
        self._orphans = collections.deque()

    def close(self) -> None:
        """Says goodbye behind everything this rank has submitted. Bounded: 5 seconds."""
        try:
            errors.check(lib.rueda_shutdown(self.pointer))
        finally:
            self.sparse.clear()
            while self._orphans:  # nothing is in flight any more
                lib.rueda_release(self._orphans.popleft()[0])

    def error_of(self, number: int, code: int) -> Exception:
        """The exception for the code with which the operation of this number failed; before its release."""
        return errors.of_handle(number, code) if self.process == os.getpid() else self.forked()

    def forked(self) -> errors.NotInitializedError:
        """What a process that was forked from this rank is told."""
        return errors.NotInitializedError(
            f"process {os.getpid()} was forked from rank {self.rank} (process {self.process}) after init() and is no rank: rank(), "
            "size() and the like answer in it, operations and init() do not", lib.RUEDA_NOT_INITIALIZED)  # fmt: skip

    def next_name_space(self, kind: str, ranks: Sequence[int]) -> str:
        """A prefix for the names of one object of this kind among these ranks, which all make such objects in the same
        order."""
        return f"{kind}.{next(self._name_spaces[kind, tuple(ranks)])}."

    def adopt(self, number: int, loan: Any) -> None:
        """Keeps what an operation was lent until it has finished, for a caller that gave its handle up."""
        self._orphans.append((number, loan))
        for _ in range(len(self._orphans)):
            orphan = self._orphans.popleft()
            if lib.rueda_poll(orphan[0]) == 0:
                self._orphans.append(orphan)
            else:
                lib.rueda_release(orphan[0])


_lock = threading.Lock()
_session: Optional[Session] = None
_inherited: Optional[Session] = None  # of the process that this one was forked from


def _be_no_rank() -> None:
    """In a process that was just forked. Its lock may have been held by a thread that it does not have."""
    global _lock, _session, _inherited
    _lock, _Joining._last = threading.Lock(), None
    if _session is not None:
        _session, _inherited = None, _session


os.register_at_fork(after_in_child=_be_no_rank)


def join(comm: Any = None, options: Any = None, sets: Sequence[Sequence[int]] = ()) -> bool:
    """Joins the job as init() says; whether that was still to be done. options: SessionOptions of rueda/store.py, with neither
    of the others. sets: the ranks of each process set that is there from the start; their numbers are 1, 2, ..."""
    communicator = comm if _is_communicator(comm) else None
    listed = None if comm is None or communicator is not None else _ranks_of(comm) or None
    if _inherited is not None:
        raise _inherited.forked()
    with _lock:
        begun = _session is None
        if begun:
            part = listed if listed is not None and _is_part(listed) else []
            if communicator is not None or part or sets:
                options = _InitOptions(communicator, part, sets)
            session = Session(options)
            session.part = part
            _open(session)
    if communicator is not None:
        if (comm.Get_rank(), comm.Get_size()) != (current().rank, current().size):
            raise ValueError(
                f"init(comm=...): rank {comm.Get_rank()} of a communicator of {comm.Get_size()}, but this process is rank "
                f"{current().rank} of a job of {current().size} already; shutdown() ends that"
            )
    elif listed is not None and listed != current().part and sorted(listed) != list(range(current().size)):
        raise ValueError(f"init(comm={comm!r}): a part of the {current().size} ranks; make a process set of them")
    return begun


def _is_part(ranks: List[int]) -> bool:
    """Whether MPI can make a job of these ranks alone: mpirun has started this process, and others as well."""
    if os.environ.get("RUEDA_RANK") or os.environ.get("RANK"):  # hvdrun's or torchrun's, perhaps below an mpirun
        return False
    told = os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ.get("PMI_SIZE") or ""
    return told.isdigit() and sorted(ranks) != list(range(int(told)))


def _is_communicator(comm: Any) -> bool:
    mpi = sys.modules.get("mpi4py.MPI")  # who has a communicator has imported it
    return mpi is not None and isinstance(comm, mpi.Comm)


class _InitOptions:
    """rueda_init_options for the ranks of a communicator of mpi4py's, where there is one, or for a part of mpirun's, and with
    process sets. Alive as long as the session is being made."""

    def __init__(self, communicator: Any, part: Sequence[int], sets: Sequence[Sequence[int]]):
        self._communicator = communicator
        address = 0 if communicator is None else sys.modules["mpi4py.MPI"]._addressof(communicator)
        self._part = ffi.new("int32_t[]", part)
        self._ranks = [ffi.new("int32_t[]", ranks) for ranks in sets]
        self._sets = ffi.new("rueda_process_set[]", [
            {"struct_size": ffi.sizeof("rueda_process_set"), "ranks": ranks, "count": len(ranks)} for ranks in self._ranks])  # fmt: skip
        self.pointer = ffi.new("rueda_init_options*", {
            "struct_size": ffi.sizeof("rueda_init_options"), "process_sets": self._sets, "process_set_count": len(sets),
            "mpi_comm": ffi.cast("void*", address), "ranks": self._part, "rank_count": len(part)})  # fmt: skip


def _ranks_of(comm: Any) -> List[int]:
    if isinstance(comm, (list, tuple, range)):
        for rank in comm:
            if not hasattr(rank, "__index__"):
                raise ValueError(f"init(comm={comm!r}): {rank!r} is no rank; a list holds ranks as whole numbers")
        return [int(rank) for rank in comm]
    raise ValueError(f"init(comm=...): a {type(comm).__name__}; None, a list of ranks or a communicator of mpi4py's")


def _open(session: Session) -> None:
    global _session
    _session = session


def shutdown() -> None:
    """Leaves the job. What all ranks have submitted by then runs to its end. Does nothing without a session; in a process that was
    forked from a rank it ends no more than the answers of rank() and the like. A job that init_process_group("rueda") began
    goes on until destroy_process_group()."""
    with _lock:
        if _session is not None and _session.grouped:
            _session.asked_for = False
            return
    _end()


def end_for_group() -> bool:
    """Leaves the job that a process group began, unless somebody has called init() since; whether it did."""
    with _lock:
        if _session is not None:
            _session.grouped = False
            if _session.asked_for:
                return False
    _end()
    return True


def _end() -> None:
    global _session, _inherited
    with _lock:
        session, _session, _inherited = _session, None, None
    if session is not None:
        session.close()


def current_or_none() -> Optional[Session]:
    """The session of this process, where there is one."""
    return _session


def is_current(session: Optional[Session]) -> bool:
    """Whether this is the session of the process, and not one that has ended. None never is."""
    return session is not None and session is _session


def is_known(session: Session) -> bool:
    """The same, also in a process that was forked from a rank."""
    return session is (_session or _inherited)


def is_initialized() -> bool:
    """Whether init() was called, and shutdown() was not; as of the rank in a process that was forked from one."""
    return _session is not None or _inherited is not None


def current() -> Session:
    """The session of this process. NotInitializedError: there is none."""
    if _session is None:
        if _inherited is not None:
            raise _inherited.forked()
        raise errors.NotInitializedError("Rueda is not initialised: call init() first", lib.RUEDA_NOT_INITIALIZED)
    return _session


def _query(what: str) -> Any:
    known = _session or _inherited
    if known is None:
        raise ValueError("Rueda is not initialised: call init() first")
    return getattr(known, what)


def size() -> int:
    """The number of ranks. ValueError before init(), as in all of these; a process that was forked from a rank has its answers."""
    return _query("size")


def rank() -> int:
    """The number of this rank, 0 .. size()-1."""
    return _query("rank")


def local_size() -> int:
    """The number of ranks on this host."""
    return _query("local_size")


def local_rank() -> int:
    """The number of this rank among those of its host."""
    return _query("local_rank")


def cross_size() -> int:
    """The number of hosts that have a rank of this local rank."""
    return _query("cross_size")


def cross_rank() -> int:
    """The number of this host among those."""
    return _query("cross_rank")


def is_homogeneous() -> bool:
    """Whether all hosts have the same number of ranks."""
    return _query("homogeneous")


# Called when the process has left its job, before the interpreter goes.
at_exit: List[Any] = []


@atexit.register
def _leave() -> None:
    """Before the interpreter frees tensors that operations in flight still use.

    After an exception that nobody caught the rank has failed and says no goodbye: the others learn that it died, and
    hvdrun's report names it. What it was lent stays as it is until the process has ended. Whether sys.exit() was called, and with
    which code, cannot be known here: that is a goodbye, and the code is hvdrun's to tell.
    """
    if getattr(sys, "last_value", None) is not None and _session is not None:
        activity.unwatch(_session.pointer)  # no call of the library into an interpreter that is going
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_session))
        return
    try:
        _end()
    except errors.CollectiveError as error:
        print(f"rueda: at exit: {error}", file=sys.stderr)
    for end in at_exit:
        end()
