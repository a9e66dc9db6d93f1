"""Attaches hooks to the gradients of parameters, and makes sure that a parameter has the hook of one reducer only."""

import weakref
from typing import Any, Callable, Dict, Tuple

import torch

_owners: Dict[int, Tuple[Any, Any]] = {}  # weak references to a parameter and its reducer, by the parameter's id


def take_over(parameter: torch.Tensor, reducer: Any) -> None:
    """Notes that the reducer has the parameter, and removes the hook of the reducer before."""
    key = id(parameter)
    known, before = _owners.get(key, (None, None))
    if known is not None and known() is parameter and before() is not None:
        before().give_up(parameter)
    _owners[key] = (weakref.ref(parameter, lambda _: _owners.pop(key, None)), weakref.ref(reducer))


def on_gradient(parameter: torch.Tensor, ready: Callable[..., None]) -> Tuple[Any, ...]:
    """Makes autograd call `ready` each time it has added to the parameter's gradient. The last object of the result
    removes the hook; the others must be kept alive as long as the hook."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return (parameter.register_post_accumulate_grad_hook(ready),)
    accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    return (accumulator, accumulator.register_hook(lambda *_: ready()))
