"""Operations in flight."""

import threading
import time
from typing import Any, Callable, Optional

from rueda import errors
from rueda._native import lib
from rueda.session import Session

# Held while a result is made, so that threads that wait for one handle find it made.
_ending = threading.RLock()

_WAIT, _INTERRUPTED, _OK = lib.rueda_wait, lib.RUEDA_INTERRUPTED, lib.RUEDA_OK


class Handle:
    """One operation. Given up unfinished it goes on, and what it was lent is kept until its end.

    Any thread may wait for it and poll it.
    """

    __slots__ = ("_number", "_session", "_loan", "_kept", "_finish", "_result", "_error")

    def __init__(self, session: Session, number: int, loan: Any, finish: Optional[Callable[["Handle"], Any]] = None,
                 kept: Any = None):
        """number: what rueda_py_start gave. loan: what must live as long as the operation. finish: makes the
        result of this handle when the operation has succeeded; None: the result is `loan`. kept: the memory of a loan that the
        caller can give other memory."""
        self._number = number
        self._session = session
        self._loan = loan
        self._kept = kept
        self._finish = finish
        self._error = None
        if number < 0:
            self._number = 0
            raise errors.last_error(-number)

    @property
    def session(self) -> Session:
        """In which it was enqueued."""
        return self._session

    @property
    def number(self) -> int:
        """The library's number of the operation; 0 once it was given up."""
        return self._number

    def poll(self) -> bool:
        """Whether it has finished; wait() then does not block. Never blocks."""
        return self._number == 0 or lib.rueda_poll(self._number) == 1

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Waits until it has finished and returns its result; the second time at once. Signals are handled meanwhile.

        timeout: seconds, None for as long as it takes.
        HorovodInternalError: it failed. TimeoutError with poll() still False: it is in flight, wait again.
        """
        if self._number != 0:
            self._wait(timeout)
        else:
            with _ending:  # another thread may still be making the result
                pass
        if self._error is not None:
            raise errors.copy_of(self._error)
        return self._result

    def _wait(self, timeout: Optional[float]) -> None:
        number = self._number
        if timeout is None:
            code = _WAIT(number, -1.0)
            while code == _INTERRUPTED:  # Python has run the signal's handler; what it raised has left this loop
                code = _WAIT(number, -1.0)
        else:
            deadline = time.monotonic() + timeout
            code = _WAIT(number, max(0.0, timeout))
            while code == _INTERRUPTED:
                code = _WAIT(number, max(0.0, deadline - time.monotonic()))
            if code == lib.RUEDA_TIMEOUT and lib.rueda_poll(number) == 0:
                raise errors.CollectiveTimeoutError(f"not finished after {timeout} s; it is still in flight", code)
        with _ending:
            if self._number == number:  # no other thread was first
                self._end(code)

    def _end(self, code: int) -> None:
        """The operation does not touch its loan any more."""
        finish = self._finish
        try:
            if code != _OK:
                self._error = self._session.error_of(self._number, code)
            elif finish is None:
                self._result = self._loan
            else:
                self._result = finish(self)
        except Exception as error:
            self._error = errors.copy_of(error)
            raise
        finally:
            number = self.surrender()
            if number != 0:
                lib.rueda_release(number)

    @property
    def is_unmade(self) -> bool:
        """Whether a wait still has to make the result, which may mean to fill what the caller gave."""
        return self._number != 0 and self._finish is not None

    def then(self, finish: Callable[["Handle"], Any]) -> None:
        """Replaces how the result is made, before anybody waits."""
        self._finish = finish

    def also(self, finish: Callable[["Handle", Any], Any]) -> None:
        """Adds to how the result is made, before anybody waits: `finish` gets what was made by then, and makes it."""
        before, loan = self._finish, self._loan
        self._finish = lambda handle: finish(handle, loan if before is None else before(handle))

    def surrender(self) -> int:
        """The number of the finished operation, 0 if it was given up before; whoever gets it releases it. For `finish`."""
        number, self._number = self._number, 0
        self._loan = self._kept = self._finish = None
        return number

    def __del__(self) -> None:
        if self._number != 0:
            self._session.adopt(self._number, (self._loan, self._kept))
