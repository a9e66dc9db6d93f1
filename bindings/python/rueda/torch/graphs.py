"""torch.compile calls Rueda's functions, with a break of the graph before each, and does not look into them.

It is told before it is loaded, which takes longer than everything else here, by a mark on the functions' code: calls from
outside of compiled code cost nothing. A PyTorch that has no such mark gets functions that call torch.compiler.disable()
once it is in use.
"""

import functools
import sys
import types
from typing import Any, Callable, Optional

import torch


def _marker() -> Optional[Callable[[types.CodeType], None]]:
    """Marks code as not to be looked into; None: this PyTorch knows no such mark."""
    try:
        frames = torch._C._dynamo.eval_frame
        mark, skip = frames.set_code_exec_strategy, frames._FrameAction.SKIP
        strategy = frames._FrameExecStrategy(skip, skip)
    except (AttributeError, TypeError):
        return None
    return lambda code: mark(code, strategy)


_mark = _marker()


def leave_alone(*places: Any) -> None:
    """Hides the functions that modules have, and the methods of classes that they have. Only Rueda's own: the code of others'
    decorators is not ours to mark."""
    for place in places:
        for name, value in list(vars(place).items()):
            if isinstance(value, type) and isinstance(place, types.ModuleType) and _is_ours(value.__module__):
                leave_alone(value)
            elif not name.startswith("__") or name == "__call__":
                _hide(place, name, value)


def _is_ours(module: Optional[str]) -> bool:
    return (module or "").startswith(("rueda.torch", "rueda.handles"))


def _hide(place: Any, name: str, value: Any) -> None:
    function = getattr(value, "__func__", getattr(value, "fget", value))
    if not isinstance(function, types.FunctionType) or not _is_ours(function.__globals__["__name__"]):
        return
    if _mark is not None:
        _mark(function.__code__)  # where it is run
        function._torchdynamo_disable = True  # where a call of it is compiled
    elif function is value:
        setattr(place, name, _disabled(function))
    elif isinstance(value, (staticmethod, classmethod)):
        setattr(place, name, type(value)(_disabled(function)))


@functools.lru_cache(maxsize=None)  # modules that have the same function go on to have the same one
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
