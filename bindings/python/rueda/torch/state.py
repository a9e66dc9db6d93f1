"""Broadcasts parameters, optimizer state and objects from a root to all ranks, and gathers objects. All functions
block."""

import io
import pickle
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

import torch

from rueda._native import lib
from rueda.errors import UnsupportedError
from rueda.handles import Handle
from rueda.operations import ALLGATHER, make_options, root_of
from rueda.process_sets import ProcessSet, global_process_set, id_of, ranks_of
from rueda.session import current
from rueda.torch.in_place import broadcast_, broadcast_async_
from rueda.torch.rows import start_rows, take_bytes
from rueda.torch.tensors import memory_extents


def _named_tensors(prefix: str, value: Any) -> Iterator[Tuple[str, torch.Tensor]]:
    """The tensors in nested dicts, lists, tuples and pairs (name, tensor), each with a unique name."""
    if isinstance(value, torch.Tensor):
        yield prefix, value
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from _named_tensors(f"{prefix}.{key}", entry)
    elif isinstance(value, (list, tuple)):
        for index, entry in enumerate(value):
            is_pair = isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str)
            yield from _named_tensors(f"{prefix}.{entry[0]}" if is_pair else f"{prefix}.{index}", entry[1] if is_pair else entry)
    elif value is not None and not isinstance(value, (int, float, str, bool)):
        raise ValueError(f"{prefix} is a {type(value).__name__}; only tensors in dicts, lists and tuples can be broadcast")


def _broadcast_all(named: Iterable[Tuple[str, torch.Tensor]], root_rank: int, process_set: ProcessSet) -> None:
    """Broadcasts every tensor in place. One with gaps in its memory goes through a contiguous copy."""
    handles: List[Tuple[Handle, Any, Any]] = []
    for name, tensor in named:
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} has the layout {tensor.layout}; only dense tensors can be broadcast")
        dense = tensor.detach()
        if memory_extents(dense) is None:
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
    if not isinstance(params, Iterable):
        raise ValueError(f"params is a {type(params).__name__}; give its state_dict() or named_parameters()")
    if not isinstance(params, (dict, list, tuple)):
        params = list(params)
    space = current().next_name_space("broadcast_parameters", ranks_of(process_set))
    _broadcast_all(_named_tensors(space + "parameter", params), root_rank, process_set)


def _pickled(obj: Any, before: bytes = b"") -> Tuple[memoryview, Optional[Exception]]:
    """The bytes `before` and the pickled object, in a writeable buffer. If it cannot be pickled: the reason as text,
    and the error."""
    buffer = io.BytesIO()
    buffer.write(before)
    try:
        pickle.dump(obj, buffer)
    except Exception as error:  # __reduce__ may raise anything
        text = f"a {type(obj).__name__} that cannot be pickled: {type(error).__name__}: {error}"
        return memoryview(bytearray(text.encode())), error
    return buffer.getbuffer(), None


def _refuse_exposed_pickles(call: str) -> None:
    """Whoever can write a pickle that a rank loads runs code in that rank.

    UnsupportedError, the same on all ranks: the job has several hosts, and pickles would travel without TLS between them.
    """
    here = current()
    if here.local_size < here.size and here.exposed:
        raise UnsupportedError(f"{call}(): pickles go to other hosts over TLS only, and {here.exposed}; or RUEDA_INSECURE=1 on a "
                               "network that nobody else can reach", lib.RUEDA_UNSUPPORTED)  # fmt: skip


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """Returns the root's object on every rank; the root gets its own back. obj: any object that can be pickled.


    Only ranks that have proved the job's key can send the pickle that this function loads.

    Raises ValueError, on all ranks, if the root's object cannot be pickled, and UnsupportedError, on all ranks, if the job has
    several hosts and does not run with RUEDA_TLS=all.
    """
    root_rank = root_of(root_rank)
    _refuse_exposed_pickles("broadcast_object")
    name = name or current().next_name_space("broadcast_object", ranks_of(process_set)) + "object"
    is_root = current().rank == root_rank
    data, failure = _pickled(obj) if is_root else (memoryview(bytearray()), None)
    # Whatever the default device is.
    length = torch.tensor([len(data) if failure is None else -len(data)], device="cpu")
    length = int(broadcast_(length, root_rank, name + ".bytes", process_set))
    if not is_root:
        data = memoryview(bytearray(abs(length)))
    broadcast_(torch.frombuffer(data, dtype=torch.uint8), root_rank, name, process_set)
    if length < 0:
        raise ValueError(f"broadcast_object(): rank {root_rank} gave {bytes(data).decode()}") from failure
    return obj if is_root else pickle.loads(data)


def allgather_object(obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Any]:
    """Returns a list of every rank's object, in the order of ranks. obj: any object that can be pickled.


    Raises ValueError, on all ranks, if one of them cannot be pickled, and UnsupportedError as broadcast_object() does.
    """
    _refuse_exposed_pickles("allgather_object")
    name = name or current().next_name_space("allgather_object", ranks_of(process_set)) + "object"
    data, failure = _pickled(obj, _PICKLE)
    source = torch.frombuffer(data, dtype=torch.uint8)
    options = make_options(ALLGATHER, id_of(process_set))
    pieces = start_rows(name, options, source, lambda handle: take_bytes(handle, process_set)).wait()
    every = []
    for rank, piece in zip(ranks_of(process_set), pieces):
        if piece[:1] != _PICKLE:
            raise ValueError(f"allgather_object(): rank {rank} gave {bytes(piece).decode()}") from failure
        every.append(pickle.loads(piece[1:]))
    return every


_PICKLE = b"\0"  # the first byte of a pickled object; the text of an error never begins with it


class _Slot:
    """Represents a tensor in a skeleton of nested state."""

    def __init__(self, tensor: torch.Tensor):
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype
        self.on_host = tensor.is_cpu

    def tensor(self, mine: Any, device: torch.device) -> torch.Tensor:
        """`mine` if it fits, else a new tensor: on the host if the root's is there, else on `device`."""
        wanted = torch.device("cpu") if self.on_host else device
        if isinstance(mine, torch.Tensor) and (tuple(mine.shape), mine.dtype, mine.device) == (self.shape, self.dtype, wanted):
            return mine
        return torch.zeros(self.shape, dtype=self.dtype, device=wanted)


def _skeleton(value: Any) -> Any:
    """The nested value with a slot for every tensor."""
    if isinstance(value, torch.Tensor):
        return _Slot(value)
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
    if isinstance(bones, _Slot):
        return bones.tensor(mine, device)
    if isinstance(bones, dict):
        known = mine if isinstance(mine, dict) else {}
        return {key: _fleshed_out(entry, known.get(key), device) for key, entry in bones.items()}
    if isinstance(bones, (list, tuple)):
        known = mine if isinstance(mine, (list, tuple)) and len(mine) == len(bones) else [None] * len(bones)
        return _like(bones, [_fleshed_out(entry, own, device) for entry, own in zip(bones, known)])
    return bones


def _optimizer_state(optimizer: torch.optim.Optimizer) -> Dict[Any, Any]:
    """The optimizer's state and options. Keys that are parameters are replaced by the parameters' numbers."""
    numbers = {parameter: n for n, parameter in enumerate(_parameters(optimizer))}
    state = {numbers.get(key, key): dict(entry) if isinstance(entry, dict) else entry for key, entry in optimizer.state.items()}
    groups = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    return {"state": state, "groups": groups}


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
    """Overwrites the optimizer's state and options, such as learning rates, on every rank with the root's.

    Runs no step: state that only the root has is created, and state that the root does not have is removed. The
    optimizer has the same parameters in the same groups on all ranks. model: ignored.
    """
    del model
    session, root_rank = current(), root_of(root_rank)
    state = _optimizer_state(optimizer)
    space = session.next_name_space("broadcast_optimizer_state", ranks_of(process_set))
    bones = broadcast_object(_skeleton(state), root_rank, space + "skeleton", process_set)
    if session.rank != root_rank:
        state = _adopt(optimizer, bones, state)
    _broadcast_all(_named_tensors(space + "state", _tensors_only(state)), root_rank, process_set)


def _adopt(optimizer: torch.optim.Optimizer, bones: Dict[str, Any], mine: Dict[str, Any]) -> Dict[str, Any]:
    """Gives the optimizer the skeleton's state and returns it."""
    parameters = _parameters(optimizer)
    host = torch.device("cpu")
    whole: Dict[str, Any] = {"state": {}, "groups": _fleshed_out(bones["groups"], mine["groups"], host)}
    optimizer.state.clear()
    for key, entry in bones["state"].items():
        is_parameter = isinstance(key, int) and key < len(parameters)
        device = parameters[key].device if is_parameter else host
        whole["state"][key] = _fleshed_out(entry, mine["state"].get(key), device)
        optimizer.state[parameters[key] if is_parameter else key] = whole["state"][key]
    for group, options in zip(optimizer.param_groups, whole["groups"]):
        for key in set(group) - set(options) - {"params"}:
            del group[key]
        group.update(options)
    return whole
