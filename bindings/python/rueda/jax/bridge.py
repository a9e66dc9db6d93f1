"""The compiled part of rueda.jax, which XLA calls, and its knowledge of the session.

XLA runs programs on threads of its own and after the Python code that started them, so at the end of the session there
may still be programs to run. `ending()` waits for them: an operation that never runs here would fail on other ranks.
"""

import ctypes
import os
import sys
import threading
from typing import Any

import rueda
from rueda import session
from rueda._native import ffi
from rueda.jax import versions
from rueda.watchers import Watcher

TARGET = "rueda_jax"

# How long operations may stand still at the end of the session before this rank leaves without them.
_PATIENCE_SECONDS = 30.0
_PATIENCE_OF_FAILED_SECONDS = 5.0
_LOOK_SECONDS = 0.5

_library = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(rueda.__file__)), "lib", "librueda_jax.so"))
_library.rueda_jax_use.argtypes = [ctypes.c_void_p, ctypes.c_int64]
_library.rueda_jax_leave.argtypes = _library.rueda_jax_forked.argtypes = [ctypes.c_char_p]
_library.rueda_jax_first_device.argtypes = [ctypes.c_int32]
_library.rueda_jax_counts.argtypes = [ctypes.POINTER(ctypes.c_int64)] * 2


def counts() -> "tuple[int, int]":
    """The numbers of operations that XLA's calls have begun and that have finished, since the process began."""
    begun, finished = ctypes.c_int64(), ctypes.c_int64()
    _library.rueda_jax_counts(ctypes.byref(begun), ctypes.byref(finished))
    return begun.value, finished.value


def note_devices() -> None:
    """Tells the compiled part which device is this process's first: jobs of jax.distributed number those of all processes
    together. Called when a program is traced, since JAX fixes its devices when it is first asked for them."""
    _library.rueda_jax_first_device(versions.first_device())


def drain(patience: float = _PATIENCE_SECONDS) -> bool:
    """Waits until the programs have run that this thread has started, and all arrays of the process are there.

    Returns False if operations wait for other ranks and none has begun or ended for `patience` seconds. A program that computes
    is waited for as long as it takes.
    """
    ended, programs = threading.Event(), versions.programs_in_flight()

    def wait() -> None:
        versions.wait_for(programs)
        ended.set()

    threading.Thread(target=wait, name="rueda-jax-drain", daemon=True).start()
    before, still = counts(), 0.0
    while not ended.wait(_LOOK_SECONDS):
        now = counts()
        still = still + _LOOK_SECONDS if now == before and now[0] != now[1] else 0.0
        before = now
        if still >= patience:
            return False
    return True


class _Follower(Watcher):
    """Tells the compiled part which session XLA's calls belong to."""

    epoch = 0
    _waiting: Any = None  # a session that does not take part yet

    def begun(self, session: session.Session) -> None:
        if session is not self._waiting:
            _Follower.epoch += 1
        self._waiting = None
        _library.rueda_jax_use(int(ffi.cast("uintptr_t", session.local)), self.epoch)

    def waiting(self, session: session.Session, why: str) -> None:
        _Follower.epoch += 1
        self._waiting = session
        _library.rueda_jax_leave(why.encode()[:500])

    def ending(self, session: session.Session) -> None:
        drain()
        _library.rueda_jax_leave(b"Rueda has been shut down: call init() again")

    def failing(self, session: session.Session) -> None:
        # JAX waits at exit for its programs, without a limit. Those that wait for other ranks must not keep a rank that
        # has failed from ending: the others learn from its end that it failed.
        if not drain(_PATIENCE_OF_FAILED_SECONDS):
            print("rueda: at exit: programs of JAX still wait for other ranks; this process ends without them", file=sys.stderr)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)

    def forked(self, session: session.Session) -> None:
        _library.rueda_jax_forked(str(session.forked()).encode()[:500])


def epoch() -> int:
    """The number of the present session among those of this process, from 1."""
    return _Follower.epoch


def handler() -> Any:
    """The address of the handler, as JAX takes it."""
    return versions.pycapsule(_library.rueda_jax_handler)


versions.register(TARGET, handler())
session.watch(_Follower())
