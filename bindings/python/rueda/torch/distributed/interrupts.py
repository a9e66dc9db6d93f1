"""Ctrl-C while PyTorch waits for a future of this backend. It waits in C++, and Python's handlers run only after that.

future.wait(), called by the program, looks at signals here. If PyTorch waits inside of its own code, as in
DistributedDataParallel's backward pass, a thread of the backend learns of the signal and makes the futures fail. PyTorch then
returns to Python, which raises KeyboardInterrupt:

    SIGINT --> CPython's C handler --> wakeup descriptor --> our thread: does the main thread run Python within half a second?
                                                             no, and it uses no processor time: the futures fail
"""

import contextlib
import ctypes
import functools
import os
import signal
import threading
import time
from typing import Any, Dict, Optional, Tuple

import torch

_PATIENCE = 0.5  # seconds; a main thread that runs Python, or soon does, has handled a signal by then
_COMPUTES = 0.1  # the share of that time on a processor from which on it computes, and does not wait

# The originals: callbacks.py counts what programs attach.
_wait, _add_done_callback = torch._C.Future.wait, torch._C.Future.add_done_callback
plain_wait = _wait  # looks at no signal: for a future that is about to be complete
_unfinished: Dict[Any, Any] = {}  # works, by their futures; the thread that removes one completes the future


def expect(future: Any, work: Any) -> None:
    """From now on the thread that claims the future completes it. Until then work.break_off() may be called on any
    thread, to free the main thread from a wait for the future."""
    _unfinished[future] = work


def claim(future: Any) -> Any:
    """The work if the caller must complete the future now; None if another thread has claimed it."""
    return _unfinished.pop(future, None)


def _break_off() -> None:
    for future in list(_unfinished):
        work = claim(future)
        if work is not None:
            work.break_off()


def _is_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _install() -> None:
    """Makes a wait for a future of this backend look at signals on the main thread. A wait for another future, which
    may depend on one of ours, raises the error of a signal's handler rather than the future's."""

    @functools.wraps(_wait)
    def interruptible_wait(self: Any) -> Any:
        if self in _unfinished and _is_main_thread():
            ended = threading.Lock()  # an Event costs 2 us more
            ended.acquire()
            _add_done_callback(self, lambda _: ended.release())
            ended.acquire()
        try:
            return _wait(self)
        finally:
            _look_at_signals()

    if torch._C.Future.wait is _wait:
        torch._C.Future.wait = interruptible_wait


def _look_at_signals() -> None:
    """Does nothing: the interpreter handles signals when a function begins, but not when an exception leaves C++."""


class _MainThread:
    """Tells whether the main thread runs Python. One thread uses it.

    The interpreter calls sem_post() for us on the main thread, after it has handled signals. It is a call of C, since
    Python code there could be interrupted by another signal.
    """

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self._semaphore = (ctypes.c_long * 8)()
        library.sem_init(self._semaphore, 0, 0)
        self._try, self._wait = library.sem_trywait, library.sem_timedwait
        self._post = ctypes.cast(library.sem_post, ctypes.c_void_p)
        self._asked = False

    def ask(self) -> None:
        """Asks the main thread to post the semaphore. answered() tells whether it has."""
        if self._asked and self._try(self._semaphore) == 0:
            self._asked = False
        if not self._asked:
            self._asked = _add_pending_call(self._post, ctypes.addressof(self._semaphore)) == 0

    def answered(self) -> bool:
        """Returns whether the main thread has run Python since ask(). Blocks for _PATIENCE at most."""
        end = time.time_ns() + int(_PATIENCE * 1e9)
        deadline = (ctypes.c_long * 2)(end // 10**9, end % 10**9)
        if self._wait(self._semaphore, deadline) != 0:
            return False
        self._asked = False
        return True

    @staticmethod
    def seconds() -> float:
        """The processor time of the main thread."""
        return time.clock_gettime(time.pthread_getcpuclockid(threading.main_thread().ident))


_add_pending_call = ctypes.pythonapi["Py_AddPendingCall"]
_add_pending_call.argtypes = [ctypes.c_void_p, ctypes.c_void_p]


class _Watch:
    """Makes the futures fail for which the main thread waits while it should raise KeyboardInterrupt, as long as there
    are groups.

    Needs the process's wakeup descriptor. If other code uses it, there is no watch; if other code takes it later, the
    watch ends. A program with a SIGINT handler of its own is left alone. Any thread may call enter() and leave().
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._groups = 0
        self._listens = False
        # Never closed: other code may restore the descriptor that it found.
        self._pipe: Optional[Tuple[int, int]] = None

    def enter(self) -> None:
        """Counts one group more."""
        with self._lock:
            self._groups += 1
            if not self._listens and _is_main_thread():
                self._listens = self._listen()

    def leave(self) -> None:
        """Counts one group less."""
        with self._lock:
            self._groups -= 1
            if self._groups == 0 and self._listens and _is_main_thread():
                self._listens = False
                _exchange(-1, self._pipe[1])

    def _listen(self) -> bool:
        if self._pipe is None:
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
            threading.Thread(target=self._run, args=self._pipe[:1], name="rueda-interrupts", daemon=True).start()
        return _exchange(self._pipe[1], -1)

    def _run(self, descriptor: int) -> None:
        main = _MainThread()
        while True:
            if signal.SIGINT in os.read(descriptor, 4096) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                self._free(main)

    @staticmethod
    def _free(main: _MainThread) -> None:
        """Ends the waits of the main thread until it has handled its signals. While it computes it is left alone: it
        will handle them when it is done."""
        main.ask()
        before = main.seconds()
        while not main.answered():
            now = main.seconds()
            if now - before < _COMPUTES * _PATIENCE:
                _break_off()
            before = now

    def leave_to_parent(self) -> None:
        """In a forked child, which has no such thread: keeps the child's signals from its parent's pipe."""
        if self._pipe is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._pipe[1], inheritable=False)  # atomic, whichever code uses the descriptor by now
            os.close(nowhere)
        if self._listens:
            _exchange(-1, self._pipe[1])


def _exchange(descriptor: int, expected: int) -> bool:
    """Sets the wakeup descriptor if it is the expected one, on the main thread. Returns whether it was."""
    try:
        found = signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    except ValueError:  # this is not the main interpreter
        return False
    if found not in (descriptor, expected):
        with contextlib.suppress(OSError, ValueError):  # it was closed
            signal.set_wakeup_fd(found)
        return False
    return True


def _start_anew() -> None:
    global watch
    watch.leave_to_parent()
    watch = _Watch()


watch = _Watch()
os.register_at_fork(after_in_child=_start_anew)
_install()
