"""Groups of several backends, such as "cpu:gloo,cuda:rueda": tensors on some devices go to other backends.

PyTorch makes a group of its own, in which it registers one backend after the other, until it comes to Rueda's. A group
that is written in Python takes the place of that one. So Rueda's keeps it, registers what is missing there, and hands
operations on the other backends' devices on to it.
"""

import contextlib
from typing import Any, Callable, Dict, Iterable, List, Optional

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup

from rueda.torch import graphs
from rueda.torch.distributed.meeting import frame_of

OPERATIONS = (
    "allreduce", "allreduce_coalesced", "broadcast", "reduce", "allgather", "allgather_coalesced", "all_gather_single", "_allgather_base",
    "all_gather_single_coalesced", "allgather_into_tensor_coalesced", "gather", "scatter", "reduce_scatter", "reduce_scatter_single",
    "_reduce_scatter_base", "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced", "alltoall", "alltoall_base",
    "all_to_all_single", "send", "recv", "recv_anysource")  # fmt: skip


class Others:
    """The backends that a program asks for beside Rueda's in the group that PyTorch is making now."""

    def __init__(self) -> None:
        """Raises ValueError if Rueda cannot make one of them."""
        frame = frame_of("_new_process_group_helper")
        config = None if frame is None else frame.f_locals.get("backend_config")
        self.backends: Dict[str, str] = {} if config is None else dict(config.get_device_backend_map())
        self._made = None if frame is None else frame.f_locals.get("pg")
        self.theirs = [device for device, backend in self.backends.items() if backend != "rueda"]
        made = (dist.Backend.GLOO, dist.Backend.NCCL)
        for device in self._missing():
            backend = self.backends[device]
            if backend not in made and backend.upper() not in dist.Backend._plugins:
                asked = ",".join(f"{key}:{value}" for key, value in self.backends.items())
                raise ValueError(f"backend {asked!r}: give {device}:{backend} before the device of Rueda's, or use gloo, nccl or a "
                                 f"backend that a package has registered for {device}")  # fmt: skip

    def _missing(self) -> List[str]:
        """The devices that PyTorch has not come to."""
        all_devices = list(self.backends)
        reached = [number for number, device in enumerate(all_devices) if self.backends[device] == "rueda"]
        return [device for device in all_devices[reached[0] :] if device in self.theirs] if reached else []

    def make(self, options: Any) -> ProcessGroup:
        """PyTorch's own group with all of them. options: PyTorch's for Rueda's. All members call it."""
        for device in self._missing():
            backend = self.backends[device]
            store = dist.PrefixStore(f"{device}/{backend}/", options.store)
            kind = getattr(ProcessGroup.BackendType, backend.upper(), ProcessGroup.BackendType.CUSTOM)
            self._made._register_backend(torch.device(device), kind, _backend(backend, store, options))
        return self._made


def _backend(name: str, store: Any, options: Any) -> Any:
    rank, size, timeout = options.group_rank, options.group_size, options.timeout
    if name == dist.Backend.GLOO:
        made = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
    elif name == dist.Backend.NCCL:
        settings = dist.ProcessGroupNCCL.Options()
        settings._timeout = timeout
        made = dist.ProcessGroupNCCL(store, rank, size, settings)
    else:
        plugin = dist.Backend._plugins[name.upper()]
        if not plugin.extended_api:
            return plugin.creator_fn(store, rank, size, timeout)
        own, options.store = options.store, store
        try:
            return plugin.creator_fn(options, None)
        finally:
            options.store = own
    made._set_sequence_number_for_group()
    return made


def _device_of(values: Iterable[Any]) -> Optional[str]:
    """The kind of device of the first tensor in arguments and in lists of them."""
    for value in values:
        found = value.device.type if isinstance(value, torch.Tensor) else None
        if isinstance(value, (list, tuple)):
            found = _device_of(value)
        if found is not None:
            return found
    return None


class SharingGroup:
    """The part of a group that hands operations on to other backends, in front of the one that runs the rest.

    The barrier is Rueda's: it waits for the ranks, and for the streams of all devices that the program uses.
    """

    _others: Optional[ProcessGroup] = None  # PyTorch's group of the other backends; None once this one is destroyed
    _theirs: List[str] = []  # the devices that it serves
    _served: List[str] = []  # all devices that the program has named

    def beside(self, others: Others, options: Any) -> None:
        """Makes the other backends. options: PyTorch's. All members call it, before the first operation."""
        self._others, self._theirs, self._served = others.make(options), others.theirs, list(others.backends)

    def _serving(self, device: Optional[str]) -> Optional[ProcessGroup]:
        return self._others if device in self._theirs else None

    @property
    def _device_types(self) -> List[torch.device]:
        return [torch.device(device) for device in self._served]

    def _get_backend(self, device: Any) -> Any:
        other = self._serving(torch.device(device).type)
        return self if other is None else other._get_backend(torch.device(device))

    def _start_coalescing(self, device: Any = None) -> None:
        other = None if device is None else self._serving(torch.device(device).type)
        (super() if other is None else other)._start_coalescing(device)  # type: ignore[misc]

    def _end_coalescing(self, device: Any = None) -> Any:
        other = None if device is None else self._serving(torch.device(device).type)
        return (super() if other is None else other)._end_coalescing(device)  # type: ignore[misc]

    def setGroupName(self, name: str) -> None:
        """Stores the name that PyTorch gives the group."""
        super().setGroupName(name)  # type: ignore[misc]
        if self._others is not None:
            self._others._set_group_name(name)

    _set_group_name = setGroupName

    def shutdown(self) -> None:
        """Leaves the group, and ends the other backends."""
        others, self._others = self._others, None
        if hasattr(others, "shutdown"):
            others.shutdown()  # type: ignore[union-attr]
        super().shutdown()  # type: ignore[misc]

    def abort(self) -> None:
        """Leaves the group without waiting for other ranks."""
        others, self._others = self._others, None
        with contextlib.suppress(RuntimeError):  # a backend that does not know of it
            if hasattr(others, "abort"):
                others.abort()  # type: ignore[union-attr]
        super().abort()  # type: ignore[misc]


def _forwarded(name: str) -> Callable[..., Any]:
    def operate(self: Any, *arguments: Any, **named: Any) -> Any:
        other = self._serving(_device_of(arguments) or _device_of(named.values()))
        return getattr(super(SharingGroup, self) if other is None else other, name)(*arguments, **named)

    operate.__name__ = name
    return operate


for _name in OPERATIONS:
    setattr(SharingGroup, _name, _forwarded(_name))
graphs.leave_alone(SharingGroup)
