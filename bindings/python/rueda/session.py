"""The session of this process: its membership as a rank in a job. All functions of the package share it.

`init()` (rueda/process_sets.py) makes the session and `shutdown()` ends it, any number of times. The exit of the
process ends it, too. A process that was forked from a rank, such as a worker of a data loader, is not a rank: rank(),
size() and the other queries answer as in the rank, but operations raise NotInitializedError.
"""

import atexit
import collections
import ctypes
import itertools
import os
import sys
import threading
from typing import Any, Dict, List, Optional, Sequence, Set

from rueda import activity, errors, newcomers, watchers
from rueda._native import ffi, lib
from rueda.joining import Joining
from rueda.keeping import Kept


def _setting(name: str) -> str:
    """A setting as the library reads it, in lower case; empty: its default."""
    return (os.environ.get(f"RUEDA_{name}") or os.environ.get(f"HOROVOD_{name}") or "").lower()


def _exposed() -> str:
    """Why another process on the network could read or change what ranks of several hosts send each other. Settings that all
    ranks have alike, so that all give the same answer."""
    if os.environ.get("RUEDA_INSECURE", "").lower() in ("1", "true", "yes", "on"):
        return ""  # the user has said that nobody else can reach the ports
    if _setting("CPU_OPERATIONS") == "mpi":
        return "MPI carries them in the clear; set RUEDA_CPU_OPERATIONS=tcp and RUEDA_TLS=all"
    if os.environ.get("RUEDA_TLS", "").lower() != "all":
        return "data travel between hosts in the clear; set RUEDA_TLS=all (hvdrun --tls all)"
    return ""


def _joined(options: Any) -> Any:
    """Calls rueda_init() and returns the session's pointer."""

    def call() -> Any:
        made = ffi.new("rueda_session**")
        errors.check(lib.rueda_init(ffi.NULL if options is None else options.pointer, made))
        return made[0]

    try:
        return Joining("init", call, lib.rueda_shutdown).wait()
    except errors.RemovedError:  # of an elastic job: nothing behind this call is for a worker that is in no plan
        raise SystemExit(0) from None


class Session:
    """One rank in one job, and in one plan of an elastic job. Its numbers never change. After close() every operation
    raises. Any thread may use it."""

    is_new = False  # whether this is a new worker of a running job that has not come to where the others are

    def __init__(self, options: Any = None, before: Optional["Session"] = None):
        """Blocks until all ranks have come. options: SessionOptions of rueda/store.py; None uses the environment. before:
        the session of the plan before, if the library's has joined the next one."""
        # Whether the program has called init(), and so will call shutdown().
        self.asked_for = before is not None and before.asked_for
        self.grouped = False  # whether a process group of torch.distributed began the session, and exists
        self.unwaited: Set[Any] = set()  # names that are taken, see names.py
        self.sparse: Dict[Any, Any] = {}  # the last sparse all-reduces, by process set and name
        self.part: List[int] = []  # the ranks of MPI that form the job; empty for all of them
        self.exposed = _exposed()  # the reason that pickles must not go to other hosts; empty if they may
        self.local = _joined(options) if before is None else before.local  # for calls that need no other rank
        self.pointer = self.local  # for operations
        self.kept = Kept(self, None if before is None else before.kept)
        if before is None:
            activity.watch(self.local)
        self.process = os.getpid()
        self.rank = lib.rueda_rank(self.pointer)
        self.size = lib.rueda_size(self.pointer)
        self.local_rank = lib.rueda_local_rank(self.pointer)
        self.local_size = lib.rueda_local_size(self.pointer)
        self.cross_rank = lib.rueda_cross_rank(self.pointer)
        self.cross_size = lib.rueda_cross_size(self.pointer)
        self.homogeneous = lib.rueda_is_homogeneous(self.pointer) == 1
        self.waits = False  # whether the worker is outside of the job, and elastic.run or reset() is to join it
        if before is None:
            self._see_whether_new()
        self._name_spaces = collections.defaultdict(itertools.count)
        self.joins = collections.Counter()  # the number of joins that have ended, by process set

    def _see_whether_new(self) -> None:
        self.waits, is_new = newcomers.standing(self.local)
        if is_new:
            self.__class__ = _Newcomer

    def begin_training(self) -> None:
        """Lets a new worker in the plan of the others take part in operations: it has come to where they are."""
        with _lock:
            newcomers.takes_part()
            if self.__class__ is _Newcomer:
                self.__class__ = Session
                for watcher in watchers.added:
                    watcher.begun(self)

    def close(self) -> None:
        """Leaves the job after everything that this rank has submitted. Waits for operations for at most 5 seconds."""
        try:
            errors.check(lib.rueda_shutdown(self.local))
        finally:
            self.sparse.clear()
            self.kept.release()  # nothing is in flight any more

    def error_of(self, number: int, code: int) -> Exception:
        """The exception for the code with which an operation failed. number: of its handle, not yet released."""
        return errors.of_handle(number, code) if self.process == os.getpid() else self.forked()

    def forked(self) -> errors.NotInitializedError:
        """The exception for operations in a process that was forked from this rank."""
        return errors.NotInitializedError(
            f"process {os.getpid()} was forked from rank {self.rank} (process {self.process}) after init() and is not a rank: rank(), "
            "size() and other queries work in it, operations and init() do not", lib.RUEDA_NOT_INITIALIZED)  # fmt: skip

    def next_name_space(self, kind: str, ranks: Sequence[int]) -> str:
        """A prefix for the names of one object's operations, different for each object of this kind among these ranks.
        All of the ranks must make such objects in the same order."""
        return f"{kind}.{next(self._name_spaces[kind, tuple(ranks)])}."

    def next_call_space(self, kind: str, ranks: Sequence[int]) -> str:
        """next_name_space() for one call of a function. A new worker's call is refused here, before it counts: the others
        do not make it."""
        self.require_part()
        return self.next_name_space(kind, ranks)

    def require_part(self) -> None:
        """Raises ValueError, which names what the program has called, if this worker does not take part in operations yet."""


class _Newcomer(Session):
    """The session of a new worker of a running job until elastic.run. If it waits, its numbers are as if it had joined."""

    is_new = True
    pointer = property(newcomers.refuse)  # type: ignore[assignment]
    require_part = newcomers.refuse  # type: ignore[assignment]


def watch(watcher: watchers.Watcher) -> None:
    """Adds a watcher for the rest of the process. A session that exists is announced to it at once."""
    with _lock:
        watchers.added.append(watcher)
        if _session is not None:
            _announce(_session, watcher)


def _announce(session: Session, watcher: watchers.Watcher) -> None:
    if session.is_new:
        watcher.waiting(session, newcomers.sentence("a compiled operation"))
    else:
        watcher.begun(session)


_lock = threading.Lock()
_session: Optional[Session] = None
_inherited: Optional[Session] = None  # the session of the process that this one was forked from


def _be_no_rank() -> None:
    """In a forked child: makes it no rank. The lock is replaced, since a thread that the child does not have may hold
    it."""
    global _lock, _session, _inherited
    _lock = threading.Lock()
    Joining.forget_last()
    if _session is not None:
        _session, _inherited = None, _session
        for watcher in watchers.added:
            watcher.forked(_inherited)


os.register_at_fork(after_in_child=_be_no_rank)


def join(comm: Any = None, options: Any = None, sets: Sequence[Sequence[int]] = ()) -> bool:
    """Joins the job, as init() describes. Returns whether the process was not a rank before.

    options: SessionOptions of rueda/store.py, without the other two arguments. sets: the ranks of each process set that
    exists from the start; their numbers are 1, 2 and so on.
    """
    communicator = comm if _is_communicator(comm) else None
    listed = None if comm is None or communicator is not None else _ranks_of(comm) or None
    if _inherited is not None:
        raise _inherited.forked()
    with _lock:
        begun = _session is None
        if begun:
            part = listed if listed is not None and _is_part(listed) else []
            if options is None:
                options = _InitOptions(communicator, part, sets)
            session = Session(options)
            session.part = part
            _open(session)
    if communicator is not None:
        if (comm.Get_rank(), comm.Get_size()) != (current().rank, current().size):
            raise ValueError(
                f"init(comm=...): rank {comm.Get_rank()} of a communicator of {comm.Get_size()}, but this process is already rank "
                f"{current().rank} of a job of {current().size}; call shutdown() first"
            )
    elif listed is not None and listed != current().part and sorted(listed) != list(range(current().size)):
        raise ValueError(f"init(comm={comm!r}) lists a part of the {current().size} ranks; make a process set of them")
    return begun


def _is_part(ranks: List[int]) -> bool:
    """Returns whether the ranks are a part of those that mpirun has started, so that MPI can make them a job."""
    # Started by hvdrun or torchrun, perhaps within an mpirun.
    if os.environ.get("RUEDA_RANK") or os.environ.get("RANK"):
        return False
    told = os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ.get("PMI_SIZE") or ""
    return told.isdigit() and sorted(ranks) != list(range(int(told)))


def _is_communicator(comm: Any) -> bool:
    mpi = sys.modules.get("mpi4py.MPI")  # a program with a communicator has imported it
    return mpi is not None and isinstance(comm, mpi.Comm)


class _InitOptions:
    """rueda_init_options, perhaps for a communicator of mpi4py or a part of mpirun's ranks, or with process sets. Must live
    until the session is made."""

    def __init__(self, communicator: Any, part: Sequence[int], sets: Sequence[Sequence[int]]):
        self._communicator = communicator
        address = 0 if communicator is None else sys.modules["mpi4py.MPI"]._addressof(communicator)
        self._part = ffi.new("int32_t[]", part)
        self._ranks = [ffi.new("int32_t[]", ranks) for ranks in sets]
        self._sets = ffi.new("rueda_process_set[]", [
            {"struct_size": ffi.sizeof("rueda_process_set"), "ranks": ranks, "count": len(ranks)} for ranks in self._ranks])  # fmt: skip
        self.pointer = ffi.new("rueda_init_options*", {
            "struct_size": ffi.sizeof("rueda_init_options"), "process_sets": self._sets, "process_set_count": len(sets),
            "mpi_comm": ffi.cast("void*", address), "ranks": self._part, "rank_count": len(part), "wait_outside": 1})  # fmt: skip


def _ranks_of(comm: Any) -> List[int]:
    if isinstance(comm, (list, tuple, range)):
        for rank in comm:
            if not hasattr(rank, "__index__"):
                raise ValueError(f"init(comm={comm!r}): {rank!r} is not a rank; give ranks as whole numbers")
        return [int(rank) for rank in comm]
    raise ValueError(f"init(comm=...) is a {type(comm).__name__}; give None, a list of ranks or an mpi4py communicator")


def _open(session: Session) -> None:
    global _session
    _session = session
    for watcher in watchers.added:
        _announce(session, watcher)


def replace(session: Session) -> Session:
    """Makes a session of the next plan that of this process, once the library's has joined it, and returns it. session:
    that of the plan before, which is the process's. Raises NotInitializedError if it has been shut down meanwhile."""
    global _session
    with _lock:
        if session is not _session:
            raise errors.NotInitializedError("the session was shut down while it joined the next plan", lib.RUEDA_NOT_INITIALIZED)
        _session = Session(before=session)
        newcomers.takes_part()
        for watcher in watchers.added:
            watcher.begun(_session)
        return _session


def shutdown() -> None:
    """Leaves the job. Operations that all ranks have submitted run to their end. Waits for them for at most 5 seconds.
    Raises ValueError inside a callback of the library, or while another thread is in reset().
    Does nothing without a session. In a process that was forked from a rank, it makes rank() and the other queries
    raise. A job that init_process_group("rueda") began goes on until destroy_process_group().
    """
    with _lock:
        if _session is not None and _session.grouped:
            _session.asked_for = False
            return
    _end()


def end_for_group() -> bool:
    """Leaves the job that a process group began, unless the program has called init() since. Returns whether it did."""
    with _lock:
        if _session is not None:
            _session.grouped = False
            if _session.asked_for:
                return False
    _end()
    return True


def _end() -> None:
    global _session, _inherited
    leaving = _session
    if leaving is not None:
        for watcher in watchers.added:
            watcher.ending(leaving)
    with _lock:
        session, _session, _inherited = _session, None, None
    if session is not None:
        session.close()


def current_or_none() -> Optional[Session]:
    """The session of this process, or None."""
    return _session


def is_current(session: Optional[Session]) -> bool:
    """Returns whether this is the session of the process. Returns False for a session that has ended, and for None."""
    return session is not None and session is _session


def is_known(session: Session) -> bool:
    """Returns is_current(session); in a process that was forked from a rank, whether it is that rank's session."""
    return session is (_session or _inherited)


def is_initialized() -> bool:
    """Returns whether init() was called, and shutdown() was not. A fork of a rank answers as that rank."""
    return _session is not None or _inherited is not None


def current() -> Session:
    """The session of this process. Raises NotInitializedError if there is none."""
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
    """The number of ranks in the job. Raises ValueError before init(). A process forked from a rank gets that rank's."""
    return _query("size")


def rank() -> int:
    """The number of this rank in the job, from 0 to size() - 1. Raises ValueError before init()."""
    return _query("rank")


def local_size() -> int:
    """The number of ranks on this host. Raises ValueError before init()."""
    return _query("local_size")


def local_rank() -> int:
    """The number of this rank on its host, from 0 to local_size() - 1; in an elastic job a worker keeps it for life, so
    it may be larger. Raises ValueError before init()."""
    return _query("local_rank")


def cross_size() -> int:
    """The number of hosts that have a rank with this local rank. Raises ValueError before init()."""
    return _query("cross_size")


def cross_rank() -> int:
    """The number of this host among those of cross_size(), counted from 0. Raises ValueError before init()."""
    return _query("cross_rank")


def is_homogeneous() -> bool:
    """Returns whether all hosts have the same number of ranks."""
    return _query("homogeneous")


# Functions to call after the process has left its job, before the interpreter is finalised.
at_exit: List[Any] = []


@atexit.register
def _leave() -> None:
    """Leaves the job before the interpreter frees tensors that operations in flight still use.

    After an uncaught exception the rank does not leave: it has failed. The other ranks learn that it died, hvdrun's
    report names it, and lent memory stays alive until the process has ended. A sys.exit() with a code other than 0
    looks like success here, so the rank leaves, and hvdrun reports the code.
    """
    if getattr(sys, "last_value", None) is not None and _session is not None:
        for watcher in watchers.added:
            watcher.failing(_session)
        activity.unwatch(_session.local)  # the library must not call into an interpreter that is being finalised
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_session))
        return
    try:
        _end()
    except (errors.CollectiveError, ValueError) as error:  # ValueError: a thread is still in reset()
        print(f"rueda: at exit: {error}", file=sys.stderr)
    for end in at_exit:
        end()
