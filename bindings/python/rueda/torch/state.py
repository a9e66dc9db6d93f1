"""Broadcasts parameters, optimizer state and objects from a root to all ranks, and gathers objects. All functions
block."""

from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

import torch

from rueda.handles import Handle
from rueda.objects import allgather_object as allgather_object
from rueda.objects import broadcast_object
from rueda.operations import root_of
from rueda.process_sets import ProcessSet, global_process_set, ranks_of
from rueda.session import current
from rueda.torch.in_place import broadcast_async_
from rueda.torch.object_bytes import TensorSlot
from rueda.trees import named_tensors, nested


def _named_tensors(prefix: str, value: Any) -> Iterator[Tuple[str, torch.Tensor]]:
    return named_tensors(torch.Tensor, prefix, value)


def _broadcast_all(named: Iterable[Tuple[str, torch.Tensor]], root_rank: int, process_set: ProcessSet) -> None:
    """Broadcasts every tensor, row by row: ranks may have their dimensions in different orders in memory. One in another order, or with
    gaps, goes through a copy."""
    handles: List[Tuple[Handle, Any, Any]] = []
    for name, tensor in named:
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} has the layout {tensor.layout}; only dense tensors can be broadcast")
        dense = tensor.detach()
        if not dense.is_contiguous():
            dense = dense.contiguous()
        handles.append((broadcast_async_(dense, root_rank, name, process_set), tensor, dense))
    for handle, tensor, dense in handles:
        handle.wait()
        if dense.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(dense)


def broadcast_parameters(params: Any, root_rank: int, process_set: ProcessSet = global_process_set) -> None:
    """Overwrites the parameters of every rank with the root's.

    params: a state_dict(), named_parameters(), or nested dicts and lists of tensors, with the same structure on all
    ranks. Raises ValueError if it is or holds anything else.
    """
    root_rank = root_of(root_rank)
    params = nested(params, "its state_dict() or named_parameters()")
    space = current().next_call_space("broadcast_parameters", ranks_of(process_set))
    _broadcast_all(_named_tensors(space + "parameter", params), root_rank, process_set)


def _skeleton(value: Any) -> Any:
    """The nested value with a slot for every tensor."""
    if isinstance(value, torch.Tensor):
        return TensorSlot.of(value)
    if isinstance(value, dict):
        return {key: _skeleton(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return _like(value, [_skeleton(entry) for entry in value])
    return value


def _like(value: Any, entries: List[Any]) -> Any:
    """A list or tuple of the same type as `value`."""
    return type(value)(*entries) if hasattr(value, "_fields") else type(value)(entries)


def _fleshed_out(bones: Any, mine: Any, device: torch.device) -> Any:
    """The skeleton with a tensor in every slot: this rank's own if it fits."""
    if isinstance(bones, TensorSlot):
        return bones.tensor(mine, device)
    if isinstance(bones, dict):
        known = mine if isinstance(mine, dict) else {}
        return {key: _fleshed_out(entry, known.get(key), device) for key, entry in bones.items()}
    if isinstance(bones, (list, tuple)):
        known = mine if isinstance(mine, (list, tuple)) and len(mine) == len(bones) else [None] * len(bones)
        return _like(bones, [_fleshed_out(entry, own, device) for entry, own in zip(bones, known)])
    return bones


def _optimizer_state(optimizer: torch.optim.Optimizer, is_root: bool) -> Dict[Any, Any]:
    """The optimizer's state and options, and on the root what else it puts into its state_dict(). Keys that are parameters are replaced
    by the parameters' numbers."""
    numbers = {parameter: n for n, parameter in enumerate(_parameters(optimizer))}
    state = {numbers.get(key, key): dict(entry) if isinstance(entry, dict) else entry for key, entry in optimizer.state.items()}
    groups = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    return {"state": state, "groups": groups, "more": _more_of(optimizer) if is_root else {}}


_PLAIN = "state", "param_groups"


def _more_of(optimizer: torch.optim.Optimizer) -> Dict[str, Any]:
    """The entries that a class of the program's has added to PyTorch's two of its state_dict()."""
    makes_it = next((kind for kind in type(optimizer).__mro__ if "state_dict" in vars(kind)), torch.optim.Optimizer)
    if makes_it.__module__.partition(".")[0] == "torch":
        return {}
    return {key: value for key, value in optimizer.state_dict().items() if key not in _PLAIN}


def _set_more(optimizer: torch.optim.Optimizer, more: Dict[str, Any]) -> None:
    """Sets these entries by load_state_dict(). That makes new groups and states, perhaps of other types, so the present ones are put back:
    schedulers and graphs refer to them."""
    groups, state = optimizer.param_groups, optimizer.state
    own = torch.optim.Optimizer.state_dict(optimizer) if isinstance(optimizer, torch.optim.Optimizer) else optimizer.state_dict()
    optimizer.load_state_dict({**{key: own[key] for key in _PLAIN}, **more})
    optimizer.param_groups, optimizer.state = groups, state


def _parameters(optimizer: torch.optim.Optimizer) -> List[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _tensors_only(value: Any) -> Any:
    """The nested value with None for everything that the skeleton already holds."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, dict):
        return {key: _tensors_only(entry) for key, entry in value.items()}
    return [_tensors_only(entry) for entry in value] if isinstance(value, (list, tuple)) else None


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None,
                              process_set: ProcessSet = global_process_set) -> None:
    """Overwrites the optimizer's state and options, such as learning rates, on every rank with the root's. What a class
    of yours adds to its state_dict() is sent, too, and set by its load_state_dict(). In a job of several hosts without
    RUEDA_TLS=all such entries are data only, see broadcast_object().

    Runs no step: state that only the root has is created, and state that the root does not have is removed. The
    optimizer has the same parameters in the same groups on all ranks. Parameters that require a gradient and have none
    get zeros, except those of SparseAdam, which takes no dense gradient. model: ignored.
    """
    del model
    _make_zero_gradients(optimizer)
    send_optimizer_state(optimizer, root_rank, process_set)


def send_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, process_set: ProcessSet) -> None:
    """broadcast_optimizer_state(), which leaves gradients as they are."""
    session, root_rank = current(), root_of(root_rank)
    state = _optimizer_state(optimizer, session.rank == root_rank)
    space = session.next_call_space("broadcast_optimizer_state", ranks_of(process_set))
    bones = broadcast_object(_skeleton(state), root_rank, space + "skeleton", process_set)
    if session.rank != root_rank:
        state = _adopt(optimizer, bones, state)
    _broadcast_all(_named_tensors(space + "state", _tensors_only(state)), root_rank, process_set)
    if state["more"] and session.rank != root_rank:
        _set_more(optimizer, state["more"])


def _make_zero_gradients(optimizer: torch.optim.Optimizer) -> None:
    if isinstance(optimizer, torch.optim.SparseAdam):
        return
    for parameter in _parameters(optimizer):
        if parameter.requires_grad and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)


def _adopt(optimizer: torch.optim.Optimizer, bones: Dict[str, Any], mine: Dict[str, Any]) -> Dict[str, Any]:
    """Gives the optimizer the skeleton's state and returns it."""
    parameters = _parameters(optimizer)
    host = torch.device("cpu")
    beside = parameters[0].device if parameters else host  # of tensors that belong to no parameter, and are not on the host
    whole: Dict[str, Any] = {"state": {}, **{part: _fleshed_out(bones[part], mine[part], beside) for part in ("groups", "more")}}
    optimizer.state.clear()
    for key, entry in bones["state"].items():
        is_parameter = isinstance(key, int) and key < len(parameters)
        device = parameters[key].device if is_parameter else beside
        whole["state"][key] = _fleshed_out(entry, mine["state"].get(key), device)
        optimizer.state[parameters[key] if is_parameter else key] = whole["state"][key]
    for group, options in zip(optimizer.param_groups, whole["groups"]):
        for key in set(group) - set(options) - {"params"}:
            del group[key]
        group.update(options)
    return whole
