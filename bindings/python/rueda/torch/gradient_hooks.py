"""Attaches hooks to the gradients of parameters, and makes sure that a parameter has the hook of one reducer only."""

import contextlib
import weakref
from typing import Any, Callable, Dict, Iterator, Tuple

import torch

_owners: Dict[int, Tuple[Any, Any]] = {}  # weak references to a parameter and its reducer, by the parameter's id


def take_over(parameter: torch.Tensor, reducer: Any) -> None:
    """Notes that the reducer has the parameter, and removes the hook of the reducer before."""
    key = id(parameter)
    known, before = _owners.get(key, (None, None))
    if known is not None and known() is parameter and before() is not None:
        before().give_up(parameter)
    _owners[key] = (weakref.ref(parameter, lambda _: _owners.pop(key, None)), weakref.ref(reducer))


class Hooks:
    """The hooks of one reducer, at most one on each parameter."""

    def __init__(self) -> None:
        self._ready: Dict[torch.Tensor, Callable[..., None]] = {}
        self._attached: Dict[torch.Tensor, Tuple[Any, ...]] = {}

    def attach(self, parameter: torch.Tensor, ready: Callable[..., None]) -> None:
        """Makes autograd call `ready` each time it has added to the parameter's gradient."""
        self._ready[parameter], self._attached[parameter] = ready, _on_gradient(parameter, ready)

    def remove(self, parameter: torch.Tensor) -> None:
        """Removes the parameter's hook, if there is one."""
        self._ready.pop(parameter, None)
        hook = self._attached.pop(parameter, None)
        if hook is not None:
            hook[-1].remove()

    def remove_all(self) -> None:
        """Removes every hook."""
        for parameter in list(self._attached):
            self.remove(parameter)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """A context without the hooks. Those that are removed within do not come back."""
        for hook in self._attached.values():
            hook[-1].remove()
        try:
            yield
        finally:
            self._attached = {parameter: _on_gradient(parameter, ready) for parameter, ready in self._ready.items()}


def _on_gradient(parameter: torch.Tensor, ready: Callable[..., None]) -> Tuple[Any, ...]:
    """The last object of the result removes the hook; the others must be kept alive as long as the hook."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return (parameter.register_post_accumulate_grad_hook(ready),)
    accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    return (accumulator, accumulator.register_hook(lambda *_: ready()))
