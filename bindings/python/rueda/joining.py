"""Calls of the library that wait for other ranks."""

import threading
from typing import Any, Callable, Optional

from rueda import errors

# Python's own wait misses a signal that comes just before it sleeps, or that the kernel hands to another thread.
_LOOK = 1.0  # s


class Joining:
    """Runs a call of the library that waits for other ranks on a thread of its own, so that the calling thread handles
    signals while it waits.

    If the caller gives up, because a signal's handler raised, the call goes on. If it then succeeds, its result is
    undone at once. One runs at a time.
    """

    _last: Optional["Joining"] = None

    def __init__(self, name: str, call: Callable[[], Any], undo: Callable[[Any], Any]):
        """name: of what is called, for the thread and for its error. call: returns the result. undo: takes it."""
        if Joining._last is not None:  # given up: two at a time would have the same rank twice
            Joining._last._wait_for_end()
        self._call, self._undo = call, undo
        self._result: Any = None
        self._error: Optional[BaseException] = None
        self._given_up = False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        try:
            threading.Thread(target=self._run, name=f"rueda-{name}", daemon=True).start()
        except RuntimeError as error:
            raise errors.CollectiveError(
                f"cannot start the thread of {name}: {error}; see ulimit -u and ulimit -v, and the container's limit on processes"
            ) from error
        Joining._last = self

    @staticmethod
    def forget_last() -> None:
        """In a forked child: the thread of the last call is not there."""
        Joining._last = None

    def _run(self) -> None:
        try:
            result = self._call()
        except Exception as error:
            self._error = error
        else:
            with self._lock:
                self._result = result
                self._undo_if_given_up()
        self._ended.set()

    def _wait_for_end(self) -> None:
        while not self._ended.wait(_LOOK):
            pass  # the interpreter runs the handlers of signals

    def _undo_if_given_up(self) -> None:
        if self._given_up and self._result is not None:
            self._undo(self._result)

    def wait(self) -> Any:
        """Returns the result of the call, or raises its error."""
        try:
            self._wait_for_end()
        except BaseException:
            with self._lock:
                self._given_up = True
                self._undo_if_given_up()
            raise
        Joining._last = None
        if self._error is not None:
            raise self._error
        return self._result
