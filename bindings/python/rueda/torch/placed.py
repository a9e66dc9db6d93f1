"""Tensors on devices whose memory the library uses where it lies: NVIDIA GPUs, with the CUDA plug-in.

A tensor there is enqueued with its address, the number of its device and the stream that is current, behind which it is
ready. A wait makes the stream that is current then go on behind the operation; the host does not wait for the device.
Outputs whose sizes only the operation finds come from PyTorch's allocator. What the operation borrows is kept until the
device has finished, since PyTorch would give freed memory to the next kernel.

Tensors on other devices go through copies on the host, as do those of a group that has several devices, and all
tensors if the plug-in is missing.
"""

import contextlib
import functools
import math
import time
import traceback
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set

import torch

from rueda import errors
from rueda._native import ffi, lib
from rueda.build import cuda_built
from rueda.handles import Handle
from rueda.outputs import outputs_of


class Kind(NamedTuple):
    """A type of PyTorch's devices that a plug-in reaches. number: of the device in rueda.h. module: PyTorch's module for
    it, as torch.cuda. handle_of: the driver's handle of a stream."""

    number: int
    module: Any
    handle_of: Callable[[Any], int]


class Spot:
    """A device that the library reaches, for hooks, which ask for the stream that is current at each gradient. There is
    one for each device."""

    __slots__ = ("device", "_kind", "_pointer")

    def __init__(self, kind: Kind, device: torch.device):
        self.device, self._kind = device, kind
        self._pointer = ffi.new("rueda_py_place*", {"device": kind.number, "index": device.index})

    def current(self) -> Any:
        """The stream that is current on this thread."""
        return self._kind.module.current_stream(self.device)

    def stream(self) -> int:
        """The driver's handle of it."""
        return self._kind.handle_of(self.current())

    def options(self, options: Any) -> Any:
        """The options of an operation on the device, without a stream."""
        own = ffi.new("rueda_py_options*", options)
        own.place = self._pointer
        return own[0]


_spots: Dict[torch.device, Spot] = {}
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


class Place:
    """A device that the library reaches, for one operation. outputs: gives memory to outputs without any."""

    __slots__ = ("kind", "device", "stream", "outputs", "_context", "_pointer")

    def __init__(self, kind: Kind, device: torch.device):
        self.kind, self.device = kind, device
        self.stream = kind.module.current_stream(device)  # at the enqueue
        self.outputs = Outputs(kind, device, self.stream)
        self._context = ffi.new_handle(self.outputs)
        self._pointer = ffi.new("rueda_py_place*", {
            "device": kind.number, "index": device.index, "stream": ffi.cast("void*", kind.handle_of(self.stream)),
            "allocate": lib.rueda_py_allocate, "outputs": self._context})  # fmt: skip

    def options(self, options: Any) -> Any:
        """The options of an operation at this place. They are valid as long as this object lives."""
        own = ffi.new("rueda_py_options*", options)
        own.place = self._pointer
        return own[0]


class Outputs:
    """Memory on a device for outputs whose sizes the operation finds. The library asks for it on a thread of its own."""

    def __init__(self, kind: Kind, device: torch.device, stream: Any):
        self._kind, self._device, self._stream = kind, device, stream
        self._given: Dict[int, torch.Tensor] = {}  # by address

    def give(self, size: int) -> int:
        """The address of `size` bytes that the stream of the enqueue may use."""
        module = self._kind.module
        if module.current_device() != self._device.index:  # else leaving the stream would make a context on device 0
            module.set_device(self._device.index)
        with module.stream(self._stream):
            memory = torch.empty(max(size, 1), dtype=torch.uint8, device=self._device)
        self._given[memory.data_ptr()] = memory
        return memory.data_ptr()

    def given(self) -> List[torch.Tensor]:
        """The memory that the library has been given."""
        return list(self._given.values())

    def take(self, handle: Handle, likes: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        """The outputs of a launched operation, in the dtypes of `likes`. For use in a handle's `finish`."""
        outputs = []
        for like, (address, shape) in zip(likes, outputs_of(handle.number, len(likes))):
            size = math.prod(shape) * like.element_size()
            if size == 0:
                outputs.append(torch.empty(shape, dtype=like.dtype, device=self._device))
            else:
                outputs.append(self._given[address][:size].view(like.dtype).view(shape))
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
    _used.add(device)
    return Place(kind, device)


def spot_of(tensor: torch.Tensor) -> Optional[Spot]:
    """The device of a tensor that the library uses where it lies; None on the host, and if it has to be copied there.
    """
    device = tensor.device
    kind = None if tensor.is_cpu else _kind_of(device.type)
    if kind is None:
        return None
    _used.add(device)
    return _spots.setdefault(device, Spot(kind, device))


def reached_types() -> List[str]:
    """The types of devices with tensors that the library uses where they lie; the first is the host's."""
    return ["cpu", *(device_type for device_type in {"cuda": None, **_kinds} if _kind_of(device_type) is not None)]


def use(device: torch.device) -> None:
    """Notes a device whose streams a barrier waits for, too, before the library has had a tensor there."""
    if _kind_of(device.type) is not None:
        _used.add(device)


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


def options_at(place: Optional[Place], options: Any) -> Any:
    """The options of an operation at this place."""
    return options if place is None else place.options(options)


@contextlib.contextmanager
def aside(handle: Optional[Handle]) -> Iterator[None]:
    """For a thread that waits for others: it waits in a stream of its own, so that the program's go on."""
    if not isinstance(handle, _Placed):
        yield
        return
    module, device = handle.kind.module, handle.device
    with module.stream(module.Stream(device)):
        yield


class _Placed(Handle):
    """The handle of an operation on a device. Each wait makes the stream that is current then go on behind it."""

    __slots__ = ("kind", "device", "_place", "_ordered", "_failed", "_launched")

    def __init__(self, place: Place, session: Any, number: int, loan: Any, finish: Any = None, kept: Any = None, names: Any = ()):
        self.kind, self.device, self._place, self._failed = place.kind, place.device, place, False
        self._launched = 0  # the operation's number once a wait has returned, until the device has finished
        super().__init__(session, number, loan, finish, (kept, place), names)

    def poll(self) -> bool:
        """Returns whether the device has finished, also after a wait. Never blocks."""
        return super().poll() and (self._launched == 0 or lib.rueda_poll(self._launched) != 0)

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Handle.wait(). Without a timeout the host does not wait for the device."""
        begun = time.monotonic()
        result, stream = super().wait(timeout), self._current()
        if stream != self._ordered:
            stream.wait_stream(self._ordered)
        if timeout is not None:
            self._await_device(begun + timeout, timeout)
        return result

    def _await_device(self, deadline: float, timeout: float) -> None:
        """Waits until the device has finished a launched operation. Raises what it failed with, and TimeoutError at the
        deadline; timeout: for the sentence."""
        number, code = self._launched, lib.RUEDA_INTERRUPTED
        while number != 0 and code == lib.RUEDA_INTERRUPTED:
            code = lib.rueda_wait(number, max(0.0, deadline - time.monotonic()))
        if number == 0 or lib.rueda_poll(number) < 0:  # finished, and released since
            self._session.kept.tell()
            return
        if code == lib.RUEDA_TIMEOUT and lib.rueda_poll(number) == 0:
            raise errors.CollectiveTimeoutError(f"the operation is launched, and its device has not finished it after {timeout} s; wait again", code)
        if code != lib.RUEDA_OK:
            raise self._session.error_of(number, code)

    def is_launched(self) -> bool:
        """Returns whether wait() does not block. Never blocks. Makes the current stream go on behind what is launched."""
        return self._number == 0 or self._wait_once(self._number, 0.0) == lib.RUEDA_OK

    def _current(self) -> Any:
        return self.kind.module.current_stream(self.device)

    def _wait_once(self, number: int, seconds: float) -> int:  # type: ignore[override]
        return lib.rueda_wait_stream(number, ffi.cast("void*", self.kind.handle_of(self._current())), seconds)

    def _end(self, code: int) -> None:
        """Makes the result, which may put work into the stream that is current on this thread."""
        self._ordered, self._failed, place = self._current(), code != lib.RUEDA_OK, self._place
        borrowed = (self._loan, place.outputs.given())
        try:
            super()._end(code)
        finally:
            self._place = None  # what it has given is borrowed until the device has finished, and no longer
        if self._ordered != place.stream:  # whose allocator would give memory away that this stream still reads
            for tensor in _tensors_in(borrowed):
                tensor.record_stream(self._ordered)

    def _let_go(self, number: int, lent: Any) -> None:
        """Keeps what is lent until the device has finished."""
        if self._failed:  # the wait has said so
            self._session.kept.adopt(number, lent)
        else:
            self._launched = number
            self._session.kept.launched(number, lent)


def _tensors_in(borrowed: Any) -> Iterator[torch.Tensor]:
    if isinstance(borrowed, torch.Tensor):
        if not borrowed.is_cpu:
            yield borrowed
    elif isinstance(borrowed, (list, tuple)):
        for each in borrowed:
            yield from _tensors_in(each)


def is_launched(handle: Handle) -> bool:
    """Returns whether a wait for the handle does not block now."""
    return handle.is_launched() if isinstance(handle, _Placed) else handle.poll()


def place_in(handle: Handle) -> Optional[Place]:
    """The place at which the handle's operation was enqueued; None if that is the host. Before the first wait's end."""
    return handle._place if isinstance(handle, _Placed) else None


def handles_at(place: Optional[Place]) -> Callable[..., Handle]:
    """What makes the handles of operations at this place, for enqueue()."""
    return Handle if place is None else functools.partial(handle_of, place)


def handle_of(place: Optional[Place], session: Any, *arguments: Any) -> Handle:
    """Handle(session, *arguments) for an operation that was enqueued at this place."""
    if place is None:
        return Handle(session, *arguments)
    session.kept.sweep()
    return _Placed(place, session, *arguments)
