"""The plans of an elastic job: the workers that are its ranks now, one plan after the other. A worker is a process.

hvdrun --min-np starts an elastic job. rueda.elastic.run does what these functions are for; call them for a loop of your
own. None of them but reset() blocks.
"""

import enum
import math
from typing import Any, Callable, List, NamedTuple, Optional

from rueda import errors, process_sets, session, watchers
from rueda._native import ffi, lib
from rueda.joining import Joining


class HostUpdateResult(enum.IntFlag):
    """What a coming plan changes."""

    no_update = 0
    removed = 1  # workers go
    added = 2  # workers come
    mixed = 3


class Membership(NamedTuple):
    """Where this rank stands, and what is coming."""

    plan: int  # the number of the plan that this rank is in, from 1; 0 in a job that is not elastic
    rank: int
    size: int
    notices: int  # how many notices of coming plans there were; grows with each
    pending_plan: int  # the latest plan that a notice leads to and this rank is not in; 0 if there is none
    pending: HostUpdateResult  # what it changes
    newcomers: int  # workers that are ready to join with it
    removal_seconds: float  # until hvdrun stops the workers that it removes; 0 if it stops none
    holds_state: bool  # whether this worker has formed an earlier plan with the others
    waits: bool  # whether this worker is new and outside of the job: plan, rank and size are as if it had come to it


# Called with what each membership() returns: its descriptor is not readable any more then, for whoever waits for it.
listeners: List[Callable[[Membership], None]] = []


def membership() -> Membership:
    """Where this rank stands. Any thread may call it. Raises NotInitializedError before init()."""
    where = membership_untold()
    for hear in tuple(listeners):
        hear(where)
    return where


def membership_untold() -> Membership:
    """membership() for a listener, which does not tell it to listeners."""
    info = ffi.new("rueda_membership_info*", {"struct_size": ffi.sizeof("rueda_membership_info")})
    errors.check(lib.rueda_membership(session.current().local, info))
    return Membership(info.plan, info.rank, info.size, info.notices, info.pending_plan, HostUpdateResult(info.pending), info.newcomers,
                      info.removal_seconds, bool(info.holds_state), bool(info.waits))  # fmt: skip


def is_over() -> bool:
    """Returns whether the plan that this rank is in has ended, so that its operations fail. False before init()."""
    known = session.current_or_none()
    return known is not None and not known.waits and lib.rueda_session_status(known.local) != lib.RUEDA_OK


def notices_descriptor() -> int:
    """A descriptor that is readable while there is a notice that membership() has not told. Do not read or close it. It is
    the same until shutdown(). Raises UnsupportedError if the job is not elastic."""
    descriptor = ffi.new("int32_t*")
    errors.check(lib.rueda_membership_fd(session.current().local, descriptor))
    return descriptor[0]


def worker_id() -> int:
    """The number of this process among all that the job has ever had. Raises UnsupportedError if the job is not elastic."""
    return _checked(lib.rueda_worker_id(session.current().local))


def _checked(number: int) -> int:
    if number < 0:
        raise errors.last_error(lib.rueda_last_error_code())
    return number


def abort(reason: str) -> None:
    """Ends what all ranks are doing, for a failure that only the program can see: their operations fail with a sentence
    that names this rank and the reason. In an elastic job reset() then joins the next plan."""
    errors.check(lib.rueda_abort(session.current().local, reason.encode()))


def reset(timeout: Optional[float] = None) -> None:
    """Leaves the plan of an elastic job, which ends it for all its ranks, and joins the next one. Blocks until all ranks
    of that plan have come, and handles signals meanwhile. Rank, size and all connections are new then.

    Handles of operations in flight fail. Process sets of add_process_set() belong to no job any more. Those of init() go
    on if all their members do; operations in the others raise ValueError. Names of operations begin anew, so objects
    that take part in collectives must be the same on all ranks, as after init().

    A new worker that waits outside of a running job joins it so: the others hear that it is ready, and it comes with the
    plan that their reset() leads to.

    timeout: in seconds; None for no limit but hvdrun's. Raises RemovedError if the job goes on without this process,
    UnsupportedError if it is not elastic, TimeoutError if the plan or ranks of it did not come, and another
    HorovodInternalError if hvdrun has ended the job. After an error reset() may be called again.
    """
    leaving = session.current()
    if membership().plan == 0:
        raise errors.UnsupportedError("reset(): this job is not elastic: it keeps the workers that it was started with; start it with "
                                      "hvdrun --min-np", lib.RUEDA_UNSUPPORTED)  # fmt: skip
    kept = [process_set for process_set in process_sets.of_init if process_set._session is leaving]
    for watcher in watchers.added:
        watcher.ending(leaving)
    options = ffi.new("rueda_reset_options*", {"struct_size": ffi.sizeof("rueda_reset_options"),
                                               "timeout_seconds": math.inf if timeout is None else timeout})  # fmt: skip
    Joining("reset", lambda: errors.check(lib.rueda_reset(leaving.local, options)), lambda _: None).wait()
    joined = session.replace(leaving)
    for process_set in kept:
        process_sets.follow(process_set, process_set._number, joined)
