"""What PyTorch before 2.7 does not do for process groups that are written in Python."""

import contextlib
import functools
from typing import Any, Dict, Optional

import torch
import torch.distributed.distributed_c10d as c10d


class _Kept:
    """The last works that nobody has waited for yet. PyTorch's C++ keeps its own part of a work alone, and waits for ever where
    Python's is gone."""

    def __init__(self, most: int):
        self._most = most
        self._works: Dict[int, Any] = {}  # by identity, the oldest first

    def add(self, work: Any) -> None:
        self._works[id(work)] = work
        if len(self._works) > self._most:
            with contextlib.suppress(RuntimeError, StopIteration):  # another thread was first
                self._works.pop(next(iter(self._works)), None)

    def remove(self, work: Any) -> None:
        self._works.pop(id(work), None)


kept: Optional[_Kept] = _Kept(1024) if torch.__version__ < (2, 7) else None


def install() -> None:
    """Has destroy_process_group() shut down groups of Rueda's, too, where it does so with NCCL's alone."""
    original = getattr(c10d, "_shutdown_backend", None)
    if original is None or hasattr(original, "serves_rueda"):
        return

    @functools.wraps(original)
    def shutdown_backend(group: Any) -> None:
        if group.name() == "rueda":
            group.shutdown()
        else:
            original(group)

    shutdown_backend.serves_rueda = True  # type: ignore[attr-defined]
    c10d._shutdown_backend = shutdown_backend
