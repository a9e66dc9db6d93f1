"""The loop around a training: when the job breaks or changes, the function is called again with the state that is left."""

import functools
from typing import Any, Callable, Tuple, Type

from rueda._native import lib
from rueda.elastic import agreement
from rueda.elastic.state import State
from rueda.errors import HorovodInternalError, HostsUpdatedInterrupt, MismatchError, NotInitializedError, UnsupportedError

# The next plan would bring the same error again: the program is wrong.
LASTING: Tuple[Type[Exception], ...] = (MismatchError, NotInitializedError, UnsupportedError)


class Round:
    """What the loop needs to know of the job. This class is the job of run_fn(), which knows nothing of it."""

    def begin(self, state: Any) -> None:
        """Called once, before the first round."""

    def must_sync(self, state: Any, wants_sync: bool) -> bool:
        """Whether the states are to be made equal. wants_sync: whether this rank needs it."""
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
            job.begin(state)
            wants_sync, joined = True, False
            while True:
                try:
                    if joined:
                        state.on_reset()
                        job.was_reset(state)
                    if job.must_sync(state, wants_sync):
                        state.sync()
                    job.synced(state)
                    wants_sync = False
                    return func(state, *args, **kwargs)
                except LASTING:
                    raise
                except HorovodInternalError as error:
                    why: Exception = error
                    state.restore()
                    wants_sync = True
                except HostsUpdatedInterrupt as interrupt:
                    why, wants_sync = interrupt, wants_sync or not interrupt.skip_sync
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

    def begin(self, state: Any) -> None:
        if not isinstance(state, State):
            raise ValueError(f"the first argument is a {type(state).__name__}; give a State, such as TorchState(model=...)")

    def must_sync(self, state: Any, wants_sync: bool) -> bool:
        return agreement.agree_on_sync(state._standing, wants_sync)

    def synced(self, state: Any) -> None:
        state._standing.taken()


def _reset() -> None:
    raise UnsupportedError("this job is not elastic: it keeps the workers that it was started with", lib.RUEDA_UNSUPPORTED)


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function of (state, ...) begin with an equal state on all ranks.

        @elastic.run
        def train(state):
            for state.epoch in range(state.epoch, 90):
                ...
                state.commit()

    Call init() before, and no collective between init() and the function. There all ranks take the state of rank 0. A job
    keeps the workers that it was started with, so every error of a collective leaves the wrapper, after the state has
    gone back to the last commit; the return value of the function is the wrapper's.
    """
    return looped(func, _reset, _Agreed)
