"""Tensors on devices whose memory the library uses where it lies: NVIDIA GPUs, with the CUDA plug-in.

A tensor there is enqueued with its address, the number of its device and the stream that is current, behind which it is
ready. A wait makes the stream that is current then go on behind the operation; the host does not wait for the device.
Outputs whose sizes only the operation finds come from PyTorch's allocator. What the operation borrows is kept until the
device has finished, since PyTorch would give freed memory to the next kernel.

Tensors on other devices go through copies on the host, as do those of a group that has several devices, and all
tensors if the plug-in is missing.
"""

import contextlib
import traceback
from typing import Any, Callable, ContextManager, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set

import torch

from rueda import errors
from rueda._native import ffi, lib
from rueda.build import cuda_built
from rueda.handles import Handle


class Kind(NamedTuple):
    """A type of PyTorch's devices that a plug-in reaches. number: of the device in rueda.h. module: PyTorch's module for
    it, as torch.cuda. handle_of: the driver's handle of a stream."""

    number: int
    module: Any
    handle_of: Callable[[Any], int]


_kinds: Dict[str, Optional[Kind]] = {}
_used: Set[torch.device] = set()  # devices that the library reaches, and has had tensors of


def reach(device_type: str, kind: Optional[Kind]) -> None:
    """Says how the library reaches devices of this type; None: it does not."""
    _kinds[device_type] = kind


def _kind_of(device_type: str) -> Optional[Kind]:
    if device_type not in _kinds:
        nvidia = device_type == "cuda" and torch.version.cuda is not None  # AMD's devices are called "cuda", too
        reach(device_type, Kind(lib.RUEDA_DEVICE_CUDA, torch.cuda, lambda stream: stream.cuda_stream) if nvidia and cuda_built() else None)
    return _kinds[device_type]


class Place(NamedTuple):
    """A device that the library reaches, for one operation. outputs: gives memory to outputs without any. context: their
    address for the library, valid as long as this object lives."""

    kind: Kind
    device: torch.device
    stream: Any  # current at the enqueue
    outputs: "Outputs"
    context: Any


class Outputs:
    """Memory on a device for outputs whose sizes the operation finds. The library asks for it on a thread of its own."""

    def __init__(self, kind: Kind, device: torch.device, stream: Any):
        self._kind, self._device, self._stream = kind, device, stream
        self._given: Dict[int, torch.Tensor] = {}  # by address

    def give(self, size: int) -> int:
        """The address of `size` bytes that the stream of the enqueue may use."""
        with self._kind.module.stream(self._stream):
            memory = torch.empty(max(size, 1), dtype=torch.uint8, device=self._device)
        self._given[memory.data_ptr()] = memory
        return memory.data_ptr()

    def take(self, handle: Handle, likes: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        """The outputs of a launched operation, in the dtypes of `likes`. For use in a handle's `finish`."""
        address, extents = ffi.new("uintptr_t*"), ffi.new("int64_t[16]")
        outputs = []
        for index, like in enumerate(likes):
            dimensions = lib.rueda_py_output(handle.number, index, address, extents)
            if dimensions < 0:
                raise errors.last_error(-dimensions)
            shape = torch.Size(extents[0:dimensions])
            if shape.numel() == 0:
                outputs.append(torch.empty(shape, dtype=like.dtype, device=self._device))
            else:
                memory = self._given[address[0]][: shape.numel() * like.element_size()]
                outputs.append(memory.view(like.dtype).view(shape))
        return outputs


@ffi.def_extern(error=ffi.NULL, onerror=lambda kind, error, trace: traceback.print_exception(kind, error, trace))
def rueda_py_allocate(context: Any, size: int, device: int, index: int, stream: Any) -> Any:
    """Outputs.give() for the library. An exception, such as of a device without memory, is printed and fails the
    operation of this rank."""
    return ffi.cast("void*", ffi.from_handle(context).give(size))


def place_of(tensor: torch.Tensor) -> Optional[Place]:
    """The place of a tensor whose memory the library uses where it lies, for one enqueue on this thread; None if it is
    on the host, or has to be copied there."""
    device = tensor.device
    kind = None if tensor.is_cpu else _kind_of(device.type)
    if kind is None:
        return None
    stream = kind.module.current_stream(device)
    _used.add(device)
    outputs = Outputs(kind, device, stream)
    return Place(kind, device, stream, outputs, ffi.new_handle(outputs))


def drain() -> None:
    """Waits for the current stream of each device whose tensors the library has had."""
    for device in list(_used):
        kind = _kind_of(device.type)
        if kind is not None:
            kind.module.current_stream(device).synchronize()


def is_reached(tensor: torch.Tensor) -> bool:
    """Returns whether the library uses the tensor's memory where it lies: on the host, or through a plug-in."""
    return tensor.is_cpu or _kind_of(tensor.device.type) is not None


def common_place(tensors: Sequence[torch.Tensor]) -> Optional[Place]:
    """The place of all tensors of a group. None if there is none, or if they are not on one device."""
    same = len({tensor.device for tensor in tensors}) == 1
    return place_of(tensors[0]) if same else None


_on_host: ContextManager[None] = contextlib.nullcontext()


def at(place: Optional[Place]) -> ContextManager[None]:
    """The context of a call that enqueues tensors of this place."""
    return _on_host if place is None else _at(place)


@contextlib.contextmanager
def _at(place: Place) -> Iterator[None]:
    lib.rueda_py_place(place.kind.number, place.device.index, place.kind.handle_of(place.stream), lib.rueda_py_allocate,
                       place.context)  # fmt: skip
    try:
        yield
    finally:
        lib.rueda_py_place(lib.RUEDA_DEVICE_CPU, 0, 0, ffi.NULL, ffi.NULL)


class _Placed(Handle):
    """The handle of an operation on a device. Each wait makes the stream that is current then go on behind it."""

    __slots__ = ("_place", "_ordered")

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Handle.wait(), without a wait of the host for the device."""
        result, stream = super().wait(timeout), self._current()
        if stream != self._ordered:
            stream.wait_stream(self._ordered)
        return result

    def _current(self) -> Any:
        return self._place.kind.module.current_stream(self._place.device)

    def _wait_once(self, number: int, seconds: float) -> int:  # type: ignore[override]
        return lib.rueda_wait_stream(number, ffi.cast("void*", self._place.kind.handle_of(self._current())), seconds)

    def _end(self, code: int) -> None:
        """Makes the result, which may put work into the stream that is current on this thread."""
        self._ordered = self._current()
        super()._end(code)

    def _let_go(self, number: int, lent: Any) -> None:
        """Keeps what is lent until the device has finished."""
        self._session.kept.launched(number, lent)


def place_in(handle: Handle) -> Optional[Place]:
    """The place at which the handle's operation was enqueued; None if that is the host."""
    return handle._place if isinstance(handle, _Placed) else None


def handle_of(place: Optional[Place], *arguments: Any) -> Handle:
    """Handle(*arguments) for an operation that was enqueued at this place."""
    if place is None:
        return Handle(*arguments)
    handle = _Placed.__new__(_Placed)
    handle._place = place
    handle.__init__(*arguments)  # type: ignore[misc]
    handle._kept = (handle._kept, place)  # the library may still ask for outputs
    return handle
