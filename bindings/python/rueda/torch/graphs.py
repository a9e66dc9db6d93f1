"""Keeps torch.compile out of Rueda's functions: it breaks the graph before a call, and does not trace into the
function.

The functions' code objects get a mark, which costs nothing outside of compiled code. The mark is set without importing
torch._dynamo, which would take longer than the rest of the import. In a PyTorch without such marks a function is
replaced by one that calls torch.compiler.disable() once torch._dynamo is loaded.
"""

import functools
import sys
import types
from typing import Any, Callable, Optional

import torch


def _marker() -> Optional[Callable[[types.CodeType], None]]:
    """A function that marks code as not to be traced; None if this PyTorch has no such mark."""
    try:
        frames = torch._C._dynamo.eval_frame
        mark, skip = frames.set_code_exec_strategy, frames._FrameAction.SKIP
        strategy = frames._FrameExecStrategy(skip, skip)
    except (AttributeError, TypeError):
        return None
    return lambda code: mark(code, strategy)


_mark = _marker()


def leave_alone(*owners: Any) -> None:
    """Hides the functions of modules and classes from torch.compile, and in modules also the methods of their classes.

    Marks only Rueda's own code, since a mark on a library's decorator would affect other users of it.
    """
    for owner in owners:
        for name, value in list(vars(owner).items()):
            if isinstance(value, type) and isinstance(owner, types.ModuleType) and _is_ours(value.__module__):
                leave_alone(value)
            elif not name.startswith("__") or name == "__call__":
                _hide(owner, name, value)


def _is_ours(module: Optional[str]) -> bool:
    return (module or "").startswith(("rueda.torch", "rueda.handles"))


def _hide(owner: Any, name: str, value: Any) -> None:
    function = getattr(value, "__func__", getattr(value, "fget", value))
    if not isinstance(function, types.FunctionType) or not _is_ours(function.__globals__["__name__"]):
        return
    if _mark is not None:
        _mark(function.__code__)  # for frames that run it
        function._torchdynamo_disable = True  # for compiled code that calls it
    elif function is value:
        setattr(owner, name, _disabled(function))
    elif isinstance(value, (staticmethod, classmethod)):
        setattr(owner, name, type(value)(_disabled(function)))


@functools.lru_cache(maxsize=None)  # modules that share a function must share its replacement
def _disabled(function: Callable[..., Any]) -> Callable[..., Any]:
    hidden: Optional[Callable[..., Any]] = None

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal hidden
        if hidden is None:
            if "torch._dynamo" not in sys.modules or not hasattr(torch, "compiler"):
                return function(*args, **kwargs)
            hidden = torch.compiler.disable(function)
        return hidden(*args, **kwargs)

    return call
