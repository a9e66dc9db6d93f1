"""What a new worker does before its first step: the state that an optimizer will have after it, and steps without the other ranks.

    parameters on the device "meta", which have shapes and no elements --the optimizer's own step-->  shapes of its state
    shapes                                                             --zeros of the same kinds-->   a state, in memory that is there

A new worker of a running job gets its optimizer's state from the others, and all of them stand still meanwhile. Memory that no
process has touched costs the kernel a fault for each page, which is a quarter of a second for 1 GB at best. A worker that waits
outside holds nobody up.
"""

import collections
import contextlib
import copy
import inspect
from typing import Any, Container, Dict, Iterable, Iterator, Optional

import torch

from rueda.torch.optimizer import _Distributed


def make_state(optimizer: torch.optim.Optimizer) -> bool:
    """Gives an optimizer without a state the one that its first step would make, with zeros for what is as large as parameters.

    Returns false, and changes nothing, if the optimizer has a state, if its class is not PyTorch's own, or if the step needs more
    than gradients, such as a closure."""
    if optimizer.state:
        return False
    try:
        state = _state_of_a_step(optimizer)
    except Exception:  # a step may need what such parameters do not have; then the state comes with its memory
        return False
    if not state:
        return False
    optimizer.state.update(state)
    return True


def _state_of_a_step(optimizer: torch.optim.Optimizer) -> Optional[Dict[Any, Any]]:
    own = _class_of(optimizer)
    if own is None:
        return None
    stands_for: Dict[Any, torch.Tensor] = {}
    twin = object.__new__(own)
    twin.__dict__.update(vars(optimizer))
    twin.state = collections.defaultdict(dict)
    twin.param_groups = [{**group, **_without_fusing(group), "params": [_like(each, stands_for) for each in group["params"]]}
                         for group in optimizer.param_groups]
    with torch.no_grad():
        inspect.unwrap(own.step)(twin)  # without what is put around it: PyTorch's profiler, and hooks of the program
    return {stands_for[like]: _filled(entry, stands_for[like].device) for like, entry in twin.state.items()}


def _class_of(optimizer: torch.optim.Optimizer) -> Any:
    """The class of PyTorch's that the optimizer is an instance of; None if the program has defined a class of its own."""
    kinds = [kind for kind in type(optimizer).__mro__ if not issubclass(kind, _Distributed)]
    return kinds[0] if f"{kinds[0].__module__}.".startswith("torch.optim.") and kinds[0] is not torch.optim.Optimizer else None


def _without_fusing(group: Dict[str, Any]) -> Dict[str, Any]:
    """The options that keep a step from being fused. A fused one refuses the device "meta"; the other makes the same state, though a
    count may lie on another device."""
    return {"fused": False} if group.get("fused") else {}


def _like(parameter: torch.Tensor, stands_for: Dict[Any, torch.Tensor]) -> torch.Tensor:
    like = torch.nn.Parameter(torch.empty_like(parameter, device="meta"), parameter.requires_grad)
    if parameter.requires_grad:
        like.grad = torch.empty_like(like)
    stands_for[like] = parameter
    return like


def _filled(entry: Dict[str, Any], device: torch.device) -> Dict[str, Any]:
    return {name: torch.zeros_like(value, device=device) if isinstance(value, torch.Tensor) and value.is_meta else copy.deepcopy(value)
            for name, value in entry.items()}  # fmt: skip


@contextlib.contextmanager
def stepping_alone(optimizer: Any) -> Iterator[None]:
    """A context in which a distributed optimizer steps with this rank's gradients. Nothing of them is left, of any optimizer."""
    reducer = optimizer._reducer if isinstance(optimizer, _Distributed) else None
    if reducer is not None:
        reducer.alone += 1
    try:
        yield
    finally:
        if reducer is not None:
            reducer.alone -= 1
        if isinstance(optimizer, _Distributed):
            optimizer._synchronized = False
        drop_gradients((each for group in optimizer.param_groups for each in group["params"]), {} if reducer is None else reducer._members)


def drop_gradients(parameters: Iterable[torch.Tensor], reduced: Container[torch.Tensor]) -> None:
    """Leaves no gradients but zeros. reduced: those of the parameters that a distributed optimizer reduces, and gives zeros if they have
    no gradient."""
    for parameter in parameters:
        gradient = parameter.grad
        # What is free the kernel may take back before the first step needs it.
        if gradient is None or parameter not in reduced or gradient.layout != torch.strided or gradient.requires_grad:
            parameter.grad = None
        else:
            gradient.zero_()
