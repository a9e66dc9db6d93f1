"""What PyTorch before 2.7 does not do for process groups in Python: keep works alive, and shut groups down."""

import contextlib
import functools
from typing import Any, Dict, Optional

import torch
import torch.distributed.distributed_c10d as c10d


class _Kept:
    """The last works that the program has not waited for. PyTorch's C++ keeps only its own part of a work alive, and
    its wait never ends once the Python object is gone. Any thread may use it."""

    def __init__(self, most: int):
        self._most = most
        self._works: Dict[int, Any] = {}  # by identity, the oldest first

    def add(self, work: Any) -> None:
        """Keeps the work. The oldest goes once there are too many."""
        self._works[id(work)] = work
        if len(self._works) > self._most:
            with contextlib.suppress(RuntimeError, StopIteration):  # another thread changed it meanwhile
                self._works.pop(next(iter(self._works)), None)

    def remove(self, work: Any) -> None:
        """Lets the work go: the program waits for it, and so holds it."""
        self._works.pop(id(work), None)


kept: Optional[_Kept] = _Kept(1024) if torch.__version__ < (2, 7) else None


def install() -> None:
    """Makes destroy_process_group() shut down groups of this backend, too. These versions of PyTorch do so only for
    NCCL's."""
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
