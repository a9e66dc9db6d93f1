"""The loop around a training: when the job breaks or changes, the function is called again with the state that is left."""

import functools
import gc
from typing import Any, Callable, Tuple, Type

from rueda import errors, plans, session
from rueda.elastic import agreement
from rueda.elastic.listener import Listener
from rueda.elastic.state import State
from rueda.errors import HorovodInternalError, HostsUpdatedInterrupt, MismatchError, NotInitializedError, RemovedError, UnsupportedError

# The next plan would bring the same error again: the program is wrong.
LASTING: Tuple[Type[Exception], ...] = (MismatchError, NotInitializedError, UnsupportedError)


class Round:
    """What the loop needs to know of the job. This class is the job of run_fn(), which knows nothing of it."""

    def prepare(self, state: Any) -> None:
        """Called in a new worker that waits outside of a running job, before it joins."""

    def begin(self, state: Any, came_late: bool) -> None:
        """Called once, before the first round. came_late: whether this process has just joined a job that was running."""

    def failed(self, state: Any) -> None:
        """Called when the job has broken, before reset()."""
        state.restore()

    def wants_sync(self, state: Any) -> bool:
        """Whether this rank needs a sync after failed()."""
        return True

    def interrupted(self, state: Any, at_commit: bool) -> None:
        """Called when the job is about to change, before reset(). at_commit: whether the state was saved just before."""

    def must_sync(self, state: Any, wants_sync: bool) -> bool:
        """Whether the states are to be made equal. wants_sync: whether this rank needs it. Called before the state is told
        of the next plan, so that what a reset callback changes is not taken back."""
        return wants_sync

    def synced(self, state: Any) -> None:
        """Called when the function is about to run: all ranks have the same state."""

    def was_reset(self, state: Any) -> None:
        """Called when the state has been told that this process has joined the next plan."""

    def end(self, state: Any) -> None:
        """Called once, however the training ends."""


def looped(func: Callable[..., Any], reset: Callable[[], None], make_round: Callable[[], Round]) -> Callable[..., Any]:
    """run_fn() with what else there is to do in each round."""

    @functools.wraps(func)
    def wrapper(state: Any, *args: Any, **kwargs: Any) -> Any:
        job = make_round()
        try:
            job.begin(state, _take_part(lambda: job.prepare(state)))
            wants_sync, joined = True, False
            while True:
                try:
                    wanted = job.must_sync(state, wants_sync)
                    if joined:
                        state.on_reset()
                        job.was_reset(state)
                    if wanted:
                        state.sync()
                    job.synced(state)
                    wants_sync = False
                    return func(state, *args, **kwargs)
                except LASTING:
                    raise
                except HorovodInternalError as error:
                    why = errors.copy_of(error)  # no more: its traceback refers to this frame
                    job.failed(state)
                    wants_sync = wants_sync or job.wants_sync(state)
                except HostsUpdatedInterrupt as interrupt:
                    why, wants_sync = errors.copy_of(interrupt), wants_sync or not interrupt.skip_sync
                    job.interrupted(state, interrupt.at_commit)
                _leave_and_join(reset, why)
                joined = True
        finally:
            job.end(state)

    return wrapper


def _leave_and_join(reset: Callable[[], None], why: Exception) -> None:
    """Calls reset(). If that fails, the error says why it was called."""
    try:
        reset()
    except Exception as error:
        raise error from why


def run_fn(func: Callable[..., Any], reset: Callable[[], None]) -> Callable[..., Any]:
    """Returns a function of (state, *args, **kwargs) that calls func(state, *args, **kwargs) until it returns, and returns
    its result.

    Before each call it calls state.sync(). If func, or the sync, raises HorovodInternalError, it calls state.restore(),
    reset() and state.on_reset(), and goes on; if HostsUpdatedInterrupt, the same without the restore, and without the
    sync if the exception's skip_sync is true. Every other exception leaves the function, as do MismatchError,
    NotInitializedError and UnsupportedError, which would only come again. reset: a function that joins the next plan.
    """
    return looped(func, reset, Round)


class _Agreed(Round):
    """All ranks decide alike whether to sync, by what each of them has gone through."""

    _listener: Any = None
    _lacks_state = False  # whether this process is a new worker and has never had the state, in whichever object the program keeps it

    def prepare(self, state: Any) -> None:
        if isinstance(state, State):
            state._prepare()
            if gc.isenabled():
                gc.collect()  # takes 0.1 s with a framework's objects; else it may come while the others wait
            state._phases.begin()

    def begin(self, state: Any, came_late: bool) -> None:
        _Agreed._lacks_state |= came_late
        if not isinstance(state, State):
            raise ValueError(f"the first argument is a {type(state).__name__}; give a State, such as TorchState(model=...)")
        state._standing.came_late |= _Agreed._lacks_state
        self._listener = Listener(state)

    def failed(self, state: Any) -> None:
        state._phases.begin()
        state._failed()
        state._phases.end("restored")
        state._standing.interrupted, state._standing.keeps = False, True

    def wants_sync(self, state: Any) -> bool:
        return state._wants_sync()

    def interrupted(self, state: Any, at_commit: bool) -> None:
        state._phases.begin()
        state._interrupted()
        state._standing.interrupted, state._standing.keeps = True, at_commit

    def must_sync(self, state: Any, wants_sync: bool) -> bool:
        state._phases.end("joined")
        state._standing.keeps = state._standing.keeps and state._is_at_commit()
        wanted = agreement.agree_on_sync(state._standing, wants_sync)
        state._agreed()
        state._phases.end("agreed")
        return wanted

    def synced(self, state: Any) -> None:
        state._standing.taken()
        _Agreed._lacks_state = False
        state._begins()
        state._phases.end("synced")
        if session.current_or_none() is not None:
            plan = plans.membership().plan
            if plan > 1:
                state._phases.tell(plans.worker_id(), plan)

    def was_reset(self, state: Any) -> None:
        self._listener.refresh()
        state._phases.end("reset callbacks run")

    def end(self, state: Any) -> None:
        if self._listener is not None:
            self._listener.end()


def _reset() -> None:
    """Joins the next plan. A worker that is in none ends here, with success: nothing behind the training is for it."""
    try:
        plans.reset()
    except RemovedError:
        session.shutdown()
        raise SystemExit(0) from None


def _take_part(prepare: Callable[[], None]) -> bool:
    """A new worker has come to where the others are. One that has waited outside calls prepare() and joins them, which interrupts
    them. Returns whether this worker is new."""
    known = session.current_or_none()
    if known is None:
        return False  # run_fn() with a job of the program's own, or an error that the function meets as well
    is_new = known.is_new
    if known.waits:
        prepare()
        _reset()
    else:
        known.begin_training()
    where = plans.membership()  # a new worker may have called reset() itself
    return is_new or (where.plan > 1 and not where.holds_state)


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function of (state, ...) survive the death of other workers, and changes of the job's hosts.

        @elastic.run
        def train(state):
            for state.epoch in range(state.epoch, 90):
                ...
                state.commit()

    Call init() before, and no collective between init() and the function: other workers may be in the middle of it, and
    a new worker meets them at its beginning. There all ranks take the state of the rank with the latest commit. If
    workers die, the others go back to their last commit, join the next plan of the job in the same process, and call the
    function again; its return value is the wrapper's. docs/guide/elastic-training.md has the rules.

    An error that the next plan would bring again leaves the wrapper: MismatchError, NotInitializedError,
    UnsupportedError, and every exception that is no HorovodInternalError. In a job that is not elastic the first error of
    a collective ends the wrapper by an UnsupportedError, whose __cause__ it is.
    """
    return looped(func, _reset, _Agreed)
