"""Ctrl-C where PyTorch waits for futures of ours: in C++, where no handler of Python's runs before the wait has ended.

A wait that a program asks for, future.wait(), looks at signals here. For one inside of PyTorch, as in DistributedDataParallel's
backward, a thread learns of the signal and makes the futures fail, so that PyTorch comes back and KeyboardInterrupt is raised:

    SIGINT --> CPython's C handler --> wakeup descriptor --> our thread: has the main thread come to it in half a second?
                                                             no, and it stands still: the futures fail
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

_PATIENCE = 0.5  # seconds in which a main thread that is in Python, or soon is again, has handled a signal
_COMPUTES = 0.1  # of that time on a processor: it is in no wait

_wait, _add_done_callback = torch._C.Future.wait, torch._C.Future.add_done_callback  # callbacks.py counts what others attach
plain_wait = _wait  # which looks at no signal: for what is about to be complete
_unfinished: Dict[Any, Any] = {}  # works by the futures that they gave out; who takes one out completes it


def expect(future: Any, work: Any) -> None:
    """The future is to be completed by who claims it; until then work.break_off() may be called, on any thread, where the main
    thread is to be freed from a wait for it."""
    _unfinished[future] = work


def claim(future: Any) -> Any:
    """The work, where the caller is the one to complete the future; else None."""
    return _unfinished.pop(future, None)


def _break_off() -> None:
    for future in list(_unfinished):
        work = claim(future)
        if work is not None:
            work.break_off()


def _is_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _install() -> None:
    """Makes waits for futures of ours look at signals on the main thread. A wait for another one, which may depend on ours,
    raises what a signal's handler raised before what made it fail."""

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
    """The interpreter does where a function begins, and not where an exception leaves C++."""


class _MainThread:
    """Tells whether the main thread is in Python. It posts a semaphore for us: the interpreter handles signals first and what it
    was given to do then. No Python runs there for this, which another signal could interrupt. For one thread."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self._semaphore = (ctypes.c_long * 8)()
        library.sem_init(self._semaphore, 0, 0)
        self._try, self._wait = library.sem_trywait, library.sem_timedwait
        self._post = ctypes.cast(library.sem_post, ctypes.c_void_p)
        self._asked = False

    def ask(self) -> None:
        """From now on answered() tells of it."""
        if self._asked and self._try(self._semaphore) == 0:
            self._asked = False
        if not self._asked:
            self._asked = _add_pending_call(self._post, ctypes.addressof(self._semaphore)) == 0

    def answered(self) -> bool:
        """Whether it was in Python since ask(). Blocks for half a second at most."""
        end = time.time_ns() + int(_PATIENCE * 1e9)
        deadline = (ctypes.c_long * 2)(end // 10**9, end % 10**9)
        if self._wait(self._semaphore, deadline) != 0:
            return False
        self._asked = False
        return True

    @staticmethod
    def seconds() -> float:
        """That it was on a processor."""
        return time.clock_gettime(time.pthread_getcpuclockid(threading.main_thread().ident))


_add_pending_call = ctypes.pythonapi["Py_AddPendingCall"]
_add_pending_call.argtypes = [ctypes.c_void_p, ctypes.c_void_p]


class _Watch:
    """Breaks off the futures for which a main thread waits that is due to raise KeyboardInterrupt, while there are groups. Uses
    the process's wakeup descriptor unless somebody else does, in which case there is no watch, or does later, which ends it.
    Programs with a handler of their own for SIGINT are left alone. Groups come and go on any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._groups = 0
        self._listens = False
        self._pipe: Optional[Tuple[int, int]] = None  # open for good: others may put the descriptor back that they found

    def enter(self) -> None:
        """There is one more group."""
        with self._lock:
            self._groups += 1
            if not self._listens and _is_main_thread():
                self._listens = self._listen()

    def leave(self) -> None:
        """There is one group less."""
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
        """Ends the waits of a main thread until it has handled its signals. One that computes will, when it is through."""
        main.ask()
        before = main.seconds()
        while not main.answered():
            now = main.seconds()
            if now - before < _COMPUTES * _PATIENCE:
                _break_off()
            before = now

    def leave_to_parent(self) -> None:
        """In a process that was just forked, and has no such thread: signals that it gets are nothing to its parent's."""
        if self._pipe is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._pipe[1], inheritable=False)  # at once, whoever is using the descriptor by now
            os.close(nowhere)
        if self._listens:
            _exchange(-1, self._pipe[1])


def _exchange(descriptor: int, expected: int) -> bool:
    """Sets the wakeup descriptor where it is the expected one; whether it was. On the main thread."""
    try:
        found = signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    except ValueError:  # this is not the main interpreter
        return False
    if found not in (descriptor, expected):
        with contextlib.suppress(OSError, ValueError):  # it was closed
            signal.set_wakeup_fd(found)
        return False
    return True


def _be_nobodys() -> None:
    global watch
    watch.leave_to_parent()
    watch = _Watch()


watch = _Watch()
os.register_at_fork(after_in_child=_be_nobodys)
_install()
