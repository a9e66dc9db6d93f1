"""Handles: operations in flight, with their results and errors."""

import threading
import time
from typing import Any, Callable, Optional, Sequence

from rueda import errors
from rueda._native import lib
from rueda.names import Key
from rueda.session import Session

# Held while a result is made, so that every thread that waits for the handle finds it complete.
_ending = threading.RLock()

_INTERRUPTED, _TIMEOUT, _OK = lib.RUEDA_INTERRUPTED, lib.RUEDA_TIMEOUT, lib.RUEDA_OK
# A signal that comes just before the library blocks, or to another thread, wakes no wait. Its handler runs after so many
# seconds at the latest.
_LOOK = 1.0


class Handle:
    """One operation. Any thread may poll it and wait for it, several at once.

    A handle may be dropped before the operation has finished. The operation then goes on, and the session keeps the
    lent memory alive until it ends.
    """

    __slots__ = ("_number", "_session", "_loan", "_kept", "_finish", "_result", "_error")

    def __init__(self, session: Session, number: int, loan: Any, finish: Optional[Callable[["Handle"], Any]] = None,
                 kept: Any = None, names: Sequence[Key] = ()):
        """number: what rueda_py_start returned; if negative, the constructor raises its error. loan: objects to keep
        alive until the operation has finished. finish: makes the result once the operation has succeeded; without it
        the result is `loan`. kept: the memory of a loan that the caller may replace (as tensor.data = ... does).
        names: what names.claim() returned; they are taken from now on."""
        self._number = number
        self._session = session
        self._loan = loan
        self._kept = kept
        self._finish = finish
        self._error = None
        if number < 0:
            self._number = 0
            raise errors.last_error(-number)
        if names:
            session.unwaited.update(names)

    @property
    def session(self) -> Session:
        """The session in which the operation was enqueued."""
        return self._session

    @property
    def number(self) -> int:
        """The library's number of the operation; 0 once that is released or surrendered."""
        return self._number

    def poll(self) -> bool:
        """Returns whether the operation has finished, so that wait() does not block. Never blocks."""
        if self._number == 0:
            return True
        ended = lib.rueda_poll(self._number) == 1
        if ended:
            self._session.unwaited.clear()
        return ended

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Waits until the operation has finished, and returns its result, the same at every call. Handles signals
        meanwhile.

        timeout: in seconds; None waits without a limit. Raises HorovodInternalError if the operation failed, and
        TimeoutError if the timeout has passed; poll() then is still False, and the caller may wait again.
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
        number, wait = self._number, self._wait_once
        if timeout is None:
            code = wait(number, _LOOK)
            # Python has run the handlers of signals meanwhile; an exception of one leaves this loop.
            while code == _INTERRUPTED or (code == _TIMEOUT and lib.rueda_poll(number) == 0):
                code = wait(number, _LOOK)
            if code == _TIMEOUT:  # of the wait, perhaps, and the operation has ended since
                code = wait(number, 0.0)
        else:
            deadline = time.monotonic() + timeout
            code = wait(number, max(0.0, timeout))
            while code == _INTERRUPTED:
                code = wait(number, max(0.0, deadline - time.monotonic()))
            if code == lib.RUEDA_TIMEOUT and lib.rueda_poll(number) == 0:
                raise errors.CollectiveTimeoutError(f"the operation has not finished after {timeout} s and is still in flight; wait again", code)
        with _ending:
            if self._number == number:  # else another thread has made the result
                self._end(code)

    # Waits for an operation of this number for so many seconds, without a limit if they are negative. Returns a code.
    _wait_once = staticmethod(lib.rueda_wait)

    def _end(self, code: int) -> None:
        """Makes the result. A wait for the operation has returned this code."""
        finish, lent = self._finish, (self._loan, self._kept)
        self._session.unwaited.clear()
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
                self._let_go(number, lent)

    def _let_go(self, number: int, lent: Any) -> None:
        """Releases the operation, which has ended and does not use what is lent any more."""
        lib.rueda_release(number)

    @property
    def is_unmade(self) -> bool:
        """Returns whether a wait still has to make the result, which may fill tensors of the caller."""
        return self._number != 0 and self._finish is not None

    def then(self, finish: Callable[["Handle"], Any]) -> None:
        """Replaces the function that makes the result. Only before the first wait."""
        self._finish = finish

    def also(self, finish: Callable[["Handle", Any], Any]) -> None:
        """Adds a function that gets the result so far and makes the new one. Only before the first wait."""
        before, loan = self._finish, self._loan
        self._finish = lambda handle: finish(handle, loan if before is None else before(handle))

    def surrender(self) -> int:
        """Returns the number of the finished operation, which the caller now releases; 0 if it is gone. For `finish`.
        """
        number, self._number = self._number, 0
        self._loan = self._kept = self._finish = None
        return number

    def __del__(self) -> None:
        if self._number != 0:
            self._session.kept.adopt(self._number, (self._loan, self._kept))


def enqueue(make: Callable[..., Handle], session: Session, start: Callable[..., int], arguments: Sequence[Any], loan: Any,
            finish: Optional[Callable[[Handle], Any]] = None, kept: Any = None, names: Sequence[Key] = ()) -> Handle:
    """Enqueues an operation by start(*arguments), a function of the library, and returns its handle. make: Handle, or what
    takes the same arguments.

    An exception may come between the two, as of Ctrl-C. The session then keeps what is lent until it ends, since nobody
    knows the operation's number.
    """
    number = None
    try:
        number = start(*arguments)
        return make(session, number, loan, finish, kept, names)
    except BaseException:
        session.kept.keep_unless_refused(number, (loan, kept, make))
        raise
