"""How the ranks of torch.distributed's default group meet, and what of its requests can be served."""

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

from rueda import session
from rueda.errors import name_ranks
from rueda.store import SessionOptions


class _TorchStore:
    """PyTorch's store below a prefix of its own. Values travel as hexadecimal text, which every store can hold."""

    def __init__(self, store: Any, prefix: str):
        self._store, self._prefix = store, prefix

    def set(self, key: str, value: bytes) -> None:
        self._store.set(self._prefix + key, value.hex() or "-")

    def get(self, key: str, timeout: float) -> Optional[bytes]:
        # A wait that times out leaves a TCPStore's connection in disorder, so short ones only look.
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
        return self._store.add(self._prefix + key, amount)


def join_job(options: Any) -> bool:
    """Makes sure that the process is a rank of the job that the default group spans; whether it was none before."""
    rank, size = options.group_rank, options.group_size
    began = not session.is_initialized()
    if began and (os.environ.get("RUEDA_RANK"), os.environ.get("RUEDA_SIZE")) == (str(rank), str(size)):
        session.join()
    elif began:
        session.join(options=_meet(options))
        _warn_of_key(session.current())
    here = session.current()
    if (here.rank, here.size) != (rank, size):
        raise ValueError(f"init_process_group('rueda'): rank {rank} of {size}, but this process is rank {here.rank} of {here.size} "
                         "of its Rueda job")  # fmt: skip
    return began


class _Generations:
    """The jobs that ranks begin through one store, one after the other. It may keep what earlier ones left: of groups that were
    destroyed, of processes that were started again, of fewer ranks or more. So rank 0 opens a generation, the others sign it, and
    it begins once all have; one that cannot be ours was signed by our number, or has begun, before we came."""

    def __init__(self, store: Any, rank: int, size: int, timeout: float):
        self._store, self._rank, self._size = store, rank, size
        self._timeout = timeout
        self._end = time.monotonic() + timeout
        self._longest_pause = 0.02 + size / 20000  # seconds; thousands of ranks look at one store

    def open(self) -> str:
        """For rank 0: the prefix of a new generation that all ranks have signed."""
        number = self._store.add("rueda/generations", 1)
        for earlier in range(number - 1, 0, -1):  # who waits in one is to look for this one
            if self._store.check([f"rueda/{earlier}/begun"]):
                break
            self._store.set(f"rueda/{earlier}/begun", "never")
        self._store.set(f"rueda/{number}/open", "yes")
        self._await([f"rueda/{number}/signed/{rank}" for rank in range(1, self._size)], number)
        self._store.set(f"rueda/{number}/begun", "yes")
        return f"rueda/{number}/"

    def sign(self) -> str:
        """For the others: the prefix of a generation that has begun and is ours."""
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
        """TimeoutError: some of the keys never came. number: of the generation that ranks are to sign; None: rank 0 is to open it."""
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
        warnings.warn("init_process_group('rueda'): the job's key went through PyTorch's store, which lets anybody on the network in; "
                      "RUEDA_JOB_KEY_FILE names a file with a key on every host", RuntimeWarning, stacklevel=2)  # fmt: skip


def _meet(options: Any) -> SessionOptions:
    """How ranks meet through PyTorch's store."""
    rank, size, timeout = options.group_rank, options.group_size, options.timeout.total_seconds()
    generations = _Generations(options.store, rank, size, timeout)
    ours = _TorchStore(options.store, generations.open() if rank == 0 else generations.sign())
    if _user_says_key():
        return SessionOptions(rank, size, ours, None, timeout)
    if rank == 0:
        ours.set("key", secrets.token_bytes(32))
    key = ours.get("key", timeout)
    if key is None:
        raise TimeoutError(f"init_process_group('rueda'): rank {rank}: rank 0 has left in the middle")
    return SessionOptions(rank, size, ours, key, timeout)


def _user_says_key() -> bool:
    """Whether the user says who is to be let into the job. Else a key goes through PyTorch's store, which lets anybody in who
    reaches it."""
    return bool(os.environ.get("RUEDA_JOB_KEY_FILE") or os.environ.get("RUEDA_INSECURE", "0") not in ("", "0"))


_LAST_SECONDS = 5.0  # that a rank has for the end of rank 0's store, as the library has to shut down


class StoreOfRankZero:
    """The store by which env:// and tcp:// have ranks meet, if rank 0 of the default group serves it: it ends when rank 0 has
    destroyed its group. Who begins another group before that would meet rank 0 in the old store, which then goes.

    PyTorch's client tells of a store that ends at length, so a connection of our own, which asks for nothing, waits for it.
    """

    def __init__(self, options: Any):
        frame = _frame_of("init_process_group")
        store = options.store
        while hasattr(store, "underlying_store"):
            store = store.underlying_store
        made = frame is not None and frame.f_locals.get("rendezvous_iterator") is not None
        agents = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        served = made and not agents and isinstance(store, TCPStore)
        self._address = (store.host, store.port) if served and options.group_rank != 0 else None

    @contextlib.contextmanager
    def outlived(self) -> Iterator[None]:
        """Around what a rank does to leave, for which rank 0 waits: ends when the store has, after some seconds at most."""
        address, self._address = self._address, None
        connection = None
        if address is not None:
            with contextlib.suppress(OSError):  # it has ended
                connection = socket.create_connection(address, timeout=_LAST_SECONDS)
        with contextlib.nullcontext() if connection is None else connection:
            yield
            if connection is not None:
                with contextlib.suppress(OSError):
                    connection.recv(1)


def _frame_of(function: str) -> Any:
    """The innermost call of PyTorch's function that is under way on this thread; None: there is none."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame


def require_alone() -> None:
    """ValueError: torch.distributed is making a group of this backend and another one, as "cpu:gloo,cuda:rueda" asks for. A
    group in Python takes the place of the whole, so the other would never be used."""
    frame = _frame_of("_new_process_group_helper")
    config = None if frame is None else frame.f_locals.get("backend_config")
    backends = {} if config is None else config.get_device_backend_map()
    if set(backends.values()) - {"rueda"}:
        asked = ",".join(f"{device}:{backend}" for device, backend in sorted(backends.items()))
        raise ValueError(f"backend {asked!r}: a group of Rueda's serves all devices or none; make one with backend 'rueda', and a "
                         "second group, by new_group(backend=...), for what another is to do")  # fmt: skip
