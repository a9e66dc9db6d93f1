"""How the ranks of torch.distributed's default group meet, and what of its requests can be served."""

import os
import secrets
import sys
from datetime import timedelta
from typing import Any, Optional

from rueda import session
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
    here = session.current()
    if (here.rank, here.size) != (rank, size):
        raise ValueError(f"init_process_group('rueda'): rank {rank} of {size}, but this process is rank {here.rank} of {here.size} "
                         "of its Rueda job")  # fmt: skip
    return began


def _meet(options: Any) -> SessionOptions:
    """How ranks meet through PyTorch's store, which keeps what earlier groups of these processes left in it: each process
    counts its own turns, and all have the same number."""
    rank, store = options.group_rank, options.store
    turn = store.add(f"rueda/turn/{rank}", 1)
    ours = _TorchStore(store, f"rueda/{turn}/")
    if rank == 0:
        ours.set("key", secrets.token_bytes(32))
    timeout = options.timeout.total_seconds()
    key = ours.get("key", timeout)
    if key is None:
        raise TimeoutError(f"init_process_group('rueda'): rank 0 did not come within {timeout} s")
    return SessionOptions(rank, options.group_size, ours, key, timeout)


def require_alone() -> None:
    """ValueError: torch.distributed is making a group of this backend and another one, as "cpu:gloo,cuda:rueda" asks for. A
    group in Python takes the place of the whole, so the other would never be used."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "_new_process_group_helper":
        frame = frame.f_back
    config = None if frame is None else frame.f_locals.get("backend_config")
    backends = {} if config is None else config.get_device_backend_map()
    if set(backends.values()) - {"rueda"}:
        asked = ",".join(f"{device}:{backend}" for device, backend in sorted(backends.items()))
        raise ValueError(f"backend {asked!r}: a group of Rueda's serves all devices or none; make one with backend 'rueda', and a "
                         "second group, by new_group(backend=...), for what another is to do")  # fmt: skip
