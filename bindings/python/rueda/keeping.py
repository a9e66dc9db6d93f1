"""Operations that no handle refers to any more, and the memory that they have borrowed, until they have ended.

A program may drop a handle before its operation has ended. A wait for an operation on a device returns before the device
has finished it.
"""

import collections
import threading
from typing import Any, Deque, List, Optional, Sequence, Tuple

from rueda import errors
from rueda._native import lib

# The library's number of an operation, and objects that keep alive what it has borrowed.
_Operation = Tuple[int, Any]


class Kept:
    """The operations of one session. Any thread may call."""

    def __init__(self, session: Any, before: Optional["Kept"] = None):
        """session: names the errors. before: those of the plan before, which this object takes over."""
        self._session = session
        self._dropped: Deque[_Operation] = collections.deque()
        self._launched: Deque[_Operation] = collections.deque()  # on devices, in the order of their waits
        self._unknown: List[Any] = []  # borrowed by operations that have no handle, as far as they were enqueued
        self._lock = threading.RLock()
        self._failure: Optional[Exception] = None  # of the first launched one that failed
        if before is not None:
            self._dropped = before._dropped
            self._dropped.extend(before._launched)
            self._unknown = before._unknown
            before._launched = collections.deque()

    def adopt(self, number: int, loan: Any) -> None:
        """Takes over an operation of a dropped handle, and releases it once it has ended."""
        self._dropped.append((number, loan))
        for _ in range(len(self._dropped)):
            operation = self._dropped.popleft()
            if lib.rueda_poll(operation[0]) == 0:
                self._dropped.append(operation)
            else:
                lib.rueda_release(operation[0])

    def launched(self, number: int, loan: Any) -> None:
        """Takes over a launched operation that its device has yet to finish, once the handle has been waited for."""
        with self._lock:
            self._launched.append((number, loan))
        self.sweep()

    def keep_unless_refused(self, number: Optional[int], loan: Any) -> None:
        """Called after an exception between an enqueue and its handle, as of Ctrl-C. number: what the enqueue has
        returned, None if nobody knows. Keeps the loan until the session ends, unless the library has refused it."""
        if number is None or number > 0:
            self._unknown.append(loan)

    def all_launched(self, operations: Sequence[_Operation]) -> None:
        """launched() for several operations at once."""
        with self._lock:
            self._launched.extend(operations)
        self.sweep()

    def sweep(self) -> None:
        """Releases launched operations that have ended, with what they have borrowed. Does not block."""
        while self._launched:
            with self._lock:
                if not self._launched or lib.rueda_poll(self._launched[0][0]) == 0:
                    return
                self._end(self._launched.popleft()[0], 0.0)

    def settle(self) -> None:
        """Waits until devices have finished the operations whose waits have returned. Raises the error of the first that
        failed: what its tensors hold means nothing, although its wait raised nothing. Handles signals meanwhile."""
        while self._launched:
            with self._lock:
                number, loan = self._launched.popleft() if self._launched else (0, None)
            while number != 0:
                try:
                    number = self._end(number, -1.0)
                except BaseException:  # of a signal's handler
                    self._launched.appendleft((number, loan))
                    raise
        self.tell()

    def tell(self) -> None:
        """Raises the error of the first launched operation that is known to have failed."""
        if self._failure is not None:
            raise errors.copy_of(self._failure)

    def _end(self, number: int, seconds: float) -> int:
        """Releases an operation that ends within that time, and returns 0. Returns its number if a signal came first."""
        code = lib.rueda_wait(number, seconds)
        if code == lib.RUEDA_INTERRUPTED:
            return number
        if code != lib.RUEDA_OK and self._failure is None:
            failure = self._session.error_of(number, code)
            self._failure = failure if isinstance(failure, errors.CollectiveError) else errors.CollectiveError(str(failure), code)
        lib.rueda_release(number)
        return 0

    def release(self) -> None:
        """Releases all of them. Only once the library has nothing in flight any more."""
        for operations in (self._dropped, self._launched):
            while operations:
                lib.rueda_release(operations.popleft()[0])
        self._unknown.clear()
