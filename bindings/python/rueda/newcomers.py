"""Whether a worker is new in a running job, and what it is told if it calls an operation before elastic.run has begun."""

import contextlib
import sys
from typing import Any, Iterator, Tuple

from rueda import errors
from rueda._native import ffi, lib

# Whether this process is a new worker that has not come to where the others are. It stays so over shutdown() and init().
_is_new = False
_warms_up = False


def standing(session: Any) -> Tuple[bool, bool]:
    """Whether the worker waits outside of the job, and whether it is new. session: the pointer that rueda_init() gave."""
    global _is_new
    info = ffi.new("rueda_membership_info*", {"struct_size": ffi.sizeof("rueda_membership_info")})
    errors.check(lib.rueda_membership(session, info))
    # hvdrun takes it for one that has the state once an init() of it has formed a plan with the others.
    _is_new = info.waits == 1 or (info.plan > 1 and (_is_new or info.holds_state == 0))
    return info.waits == 1, _is_new


def takes_part() -> None:
    """Notes that the worker has come to where the others are. It is never new again."""
    global _is_new
    _is_new = False


@contextlib.contextmanager
def warming_up() -> Iterator[None]:
    """A context for the warm-up callbacks of a worker that waits outside."""
    global _warms_up
    _warms_up = True
    try:
        yield
    finally:
        _warms_up = False


def warms_up() -> bool:
    """Whether warm-up callbacks run, so that this worker computes by itself."""
    return _warms_up


def sentence(called: str) -> str:
    """Why the operation is refused. called: what the program has called."""
    return (f"{called}: this process is a new worker of a running job; the others are in the middle of their training, and would not "
            "meet it here; call it within the function that elastic.run wraps, which gives a new worker the others' state")  # fmt: skip


def refuse(session: Any) -> Any:
    """Raises ValueError, with the name of the function of the package that the program has called, or of PyTorch's
    backward() if that has called a hook of ours. It is the getter of a property of the session."""
    called, frame = "an operation", sys._getframe(1)
    while frame is not None and (module := frame.f_globals.get("__name__", "")).partition(".")[0] in ("rueda", "horovod", "torch"):
        # The rest of PyTorch, and our parts of its graphs, call functions of ours for the program.
        if not frame.f_code.co_name.startswith("_") and not module.startswith("rueda.torch.graphs") and (
                module.startswith(("torch._tensor", "torch.autograd")) or not module.startswith("torch")):  # fmt: skip
            called = f"{frame.f_code.co_name}()"
        frame = frame.f_back  # type: ignore[assignment]
    raise ValueError(sentence(called))
