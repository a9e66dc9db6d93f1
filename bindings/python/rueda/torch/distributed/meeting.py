"""How the ranks of torch.distributed's default group become a job, through the store that PyTorch gives them.

    rank 0                                  the others
    opens generation n in the store         look for an open generation
                                            sign it
    begins it once all have signed          go on once it has begun
        all: rueda.init() below the prefix "rueda/n/" of the same store
"""

import contextlib
import os
import secrets
import socket
import sys
import threading
import time
import warnings
from datetime import timedelta
from typing import Any, Iterator, List, Optional

from torch.distributed import TCPStore

from rueda import newcomers, session
from rueda.errors import name_ranks
from rueda.store import SessionOptions


class _TorchStore:
    """PyTorch's store below a prefix, with the methods that rueda.store calls. Values are hexadecimal text, which every
    store holds.

    Only the thread that joins the job uses it.
    """

    def __init__(self, store: Any, prefix: str):
        self._store, self._prefix = store, prefix

    def set(self, key: str, value: bytes) -> None:
        """Sets the value of a key."""
        self._store.set(self._prefix + key, value.hex() or "-")

    def get(self, key: str, timeout: float) -> Optional[bytes]:
        """The value of a key, once it has one; None if it has none within `timeout` seconds."""
        # A wait that times out makes a TCPStore's connection unusable, so a short one only checks.
        if not self._store.check([self._prefix + key]):
            if timeout < 1.0:
                return None
            try:
                self._store.wait([self._prefix + key], timedelta(seconds=timeout))
            except RuntimeError:
                return None
        text = self._store.get(self._prefix + key).decode()
        return b"" if text == "-" else bytes.fromhex(text)

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter, which begins at 0, and returns its new value."""
        return self._store.add(self._prefix + key, amount)

    def remove(self, key: str) -> None:
        """Removes a key, or sets an empty value in a store that cannot remove keys."""
        try:
            self._store.delete_key(self._prefix + key)
        except RuntimeError:  # a FileStore under some PyTorch versions, a store written in Python
            self.set(key, b"")


def join_job(options: Any) -> bool:
    """Makes the process a rank of the job that the default group spans. Returns whether it was in no job before.

    options: PyTorch's. Raises ValueError if the process is in a job with another rank or size, or is a new worker that
    waits outside of a running job; TimeoutError if ranks do not come within the group's timeout; and what session.join()
    raises.
    """
    rank, size = options.group_rank, options.group_size
    began = not session.is_initialized()
    if began and (os.environ.get("RUEDA_RANK"), os.environ.get("RUEDA_SIZE")) == (str(rank), str(size)):
        session.join()
    elif began:
        session.join(options=_meet(options))
        _warn_of_key(session.current())
    here = session.current()
    if here.waits:
        raise ValueError(newcomers.sentence("init_process_group('rueda')"))
    if (here.rank, here.size) != (rank, size):
        raise ValueError(f"init_process_group('rueda'): rank {rank} of {size}, but this process is rank {here.rank} of {here.size} "
                         "of its Rueda job; give the same rank and world_size")  # fmt: skip
    return began


class _Generations:
    """The jobs that ranks begin through one store, one after the other.

    A store may hold keys of earlier jobs: of groups that were destroyed, of processes that were restarted, with fewer
    ranks or more. So every job is a generation with a number. Rank 0 opens it, the other ranks sign it, and it begins
    once all have signed. A rank knows that a generation is not its own if that has begun before the rank came, or if
    its rank number has signed it already.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: float):
        self._store, self._rank, self._size = store, rank, size
        self._timeout = timeout
        self._end = time.monotonic() + timeout
        self._longest_pause = 0.02 + size / 20000  # seconds; it grows with the ranks, which all poll one store

    def open(self) -> str:
        """On rank 0: opens a generation, waits until all ranks have signed it, and returns its prefix. Raises
        TimeoutError."""
        number = self._store.add("rueda/generations", 1)
        for earlier in range(number - 1, 0, -1):  # a rank that waits in one must look for this one
            if self._store.check([f"rueda/{earlier}/begun"]):
                break
            self._store.set(f"rueda/{earlier}/begun", "never")
        self._store.set(f"rueda/{number}/open", "yes")
        self._await([f"rueda/{number}/signed/{rank}" for rank in range(1, self._size)], number)
        self._store.set(f"rueda/{number}/begun", "yes")
        return f"rueda/{number}/"

    def sign(self) -> str:
        """On another rank: signs this job's generation, waits until it has begun, and returns its prefix. Raises
        TimeoutError."""
        number = max(self._store.add("rueda/generations", 0), 1)
        while not self._begins(number):
            number += 1
        return f"rueda/{number}/"

    def _begins(self, number: int) -> bool:
        self._await([f"rueda/{number}/open"], None)
        begun = f"rueda/{number}/begun"
        if self._store.check([begun]) or self._store.add(f"rueda/{number}/signed/{self._rank}", 1) > 1:
            return False
        self._await([begun], number)
        return self._store.get(begun) == b"yes"

    def _await(self, keys: List[str], number: Optional[int]) -> None:
        """Waits for keys. Raises TimeoutError if some do not come. number: the generation that ranks must sign; None if
        rank 0 must open it."""
        pause = 0.001
        while keys and not self._store.check(keys):
            if time.monotonic() >= self._end:
                raise TimeoutError(f"init_process_group('rueda'): rank {self._rank} of {self._size} waited for {self._timeout} s; "
                                   f"{self._missing(number)} did not come")  # fmt: skip
            _never.wait(pause)
            pause = min(2 * pause, self._longest_pause)

    def _missing(self, number: Optional[int]) -> str:
        others = range(1, self._size) if number is not None else ()
        return name_ranks([rank for rank in others if not self._store.check([f"rueda/{number}/signed/{rank}"])] or [0])


_never = threading.Event()


def _warn_of_key(here: session.Session) -> None:
    if here.rank == 0 and here.local_size < here.size and not _user_says_key():
        warnings.warn("init_process_group('rueda'): the job's key went through PyTorch's store, which serves every process on the network; "
                      "set RUEDA_JOB_KEY_FILE to a file with a key on every host", RuntimeWarning, stacklevel=2)  # fmt: skip


def _meet(options: Any) -> SessionOptions:
    """The session's options for a job that meets through PyTorch's store. Blocks until all ranks have come."""
    rank, size, timeout = options.group_rank, options.group_size, options.timeout.total_seconds()
    generations = _Generations(options.store, rank, size, timeout)
    ours = _TorchStore(options.store, generations.open() if rank == 0 else generations.sign())
    if _user_says_key() or _one_host(size):
        return SessionOptions(rank, size, ours, None, timeout)
    if rank == 0:
        ours.set("key", secrets.token_bytes(32))
    key = ours.get("key", timeout)
    if key is None:
        raise TimeoutError(f"init_process_group('rueda'): rank {rank} of {size}: rank 0 gave no key within {timeout} s; it may have ended")
    return SessionOptions(rank, size, ours, key, timeout)


def _one_host(size: int) -> bool:
    """Whether torchrun says that all ranks are on this host. The library then takes the user's key, in a folder that no other user
    may enter, and PyTorch's store never holds one."""
    return os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE") == str(size)


def _user_says_key() -> bool:
    """Returns whether the user has set how processes prove that they belong to the job. Else a key travels through
    PyTorch's store, which serves every process that reaches it."""
    return bool(os.environ.get("RUEDA_JOB_KEY_FILE") or os.environ.get("RUEDA_INSECURE", "0") not in ("", "0"))


_LAST_SECONDS = 5.0  # for the end of rank 0's store; the library's shutdown has as long


class StoreOfRankZero:
    """The store of env:// and tcp:// if rank 0 of the default group serves it, so that it ends when rank 0 destroys its
    group.

    A rank that begins its next group before that would meet rank 0 in the old store, which then ends. So outlived()
    waits for the end. PyTorch's client notices the end of a store late; a connection of our own, which sends nothing,
    notices it at once.
    """

    def __init__(self, options: Any):
        frame = frame_of("init_process_group")
        store = options.store
        while hasattr(store, "underlying_store"):
            store = store.underlying_store
        made = frame is not None and frame.f_locals.get("rendezvous_iterator") is not None
        agents = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        served = made and not agents and isinstance(store, TCPStore)
        self._address = (store.host, store.port) if served and options.group_rank != 0 else None

    @contextlib.contextmanager
    def outlived(self) -> Iterator[None]:
        """A context for leaving the group. Its exit waits until the store has ended, at most _LAST_SECONDS."""
        address, self._address = self._address, None
        connection = None
        if address is not None:
            with contextlib.suppress(OSError):  # the store has ended
                connection = socket.create_connection(address, timeout=_LAST_SECONDS)
        with contextlib.nullcontext() if connection is None else connection:
            yield
            if connection is not None:
                with contextlib.suppress(OSError):
                    connection.recv(1)


def frame_of(function: str) -> Any:
    """The innermost frame of PyTorch's function on this thread's stack; None if there is none."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame
