"""All-reduces of many gradients that one call enqueues."""

from typing import Any, List, Optional

import torch

from rueda import _hooks, errors
from rueda._native import ffi, lib
from rueda.session import Session
from rueda.torch.placed import Spot

_INTERRUPTED, _OK = lib.RUEDA_INTERRUPTED, lib.RUEDA_OK


def is_elsewhere(gradient: Optional[torch.Tensor], address: int) -> bool:
    """Returns whether a parameter's gradient is in other memory than the one that is reduced, even if it is the same
    tensor object. Returns False if there is no gradient."""
    return gradient is not None and (gradient.layout is not torch.strided or gradient.data_ptr() != address)


class HeldGradients(_hooks.Batch):
    """Gradients at one place that are enqueued together. The object is also the handle of each of them.

    Hooks add gradients as long as the object is GradientReducer's current batch. After that one thread at a time uses
    it.
    """

    __slots__ = ("_numbers", "_next", "_handed", "_error")

    def __init__(self, session: Session, place: Optional[Spot], stream: int):
        super().__init__(session, place, stream)
        self._numbers: Any = None  # numbers of the operations that were enqueued
        self._next: Any = None  # index of the first operation that was not waited for
        self._handed = 0  # index of the first one on a device that the session does not keep
        self._error: Optional[Exception] = None  # the error of the first operation that failed

    def enqueue(self, more: bool) -> int:
        """Enqueues the gradients, once. Returns how many were enqueued: fewer than there are if the library refused
        one.

        more: set if others follow soon; the engine is then not woken yet. Does not block.
        """
        count = len(self.memory)
        if self.place is not None:
            self.session.kept.sweep()
        self._numbers, self._next = ffi.new("int64_t[]", count), ffi.new("size_t*")
        done = lib.rueda_py_start_batch(self.session.pointer, count, ffi.cast("rueda_py_request**", self.requests),
                                        ffi.cast("uintptr_t*", self.addresses), ffi.cast("void*", self.stream), self._numbers, more)  # fmt: skip
        del self.memory[done:]  # keeps the memory of the others alive until their operations have ended
        return done

    def release_hooks(self, done: int) -> None:
        """Takes the handle from the hooks after the first `done`, since their gradients were not enqueued."""
        for hook in self.hooks[done:]:
            hook.handle = None
        del self.hooks[done:]

    def replaced(self) -> List[Any]:
        """The hooks of parameters that have a gradient in other memory by now than the one that is reduced."""
        addresses = ffi.cast("uintptr_t*", self.addresses)
        return [hook for number, hook in enumerate(self.hooks) if is_elsewhere(hook.parameter.grad, addresses[number])]

    def wait(self) -> None:
        """Waits for all operations, and handles signals meanwhile. Then raises the error of the first that failed, at
        every call. On a device the stream that is current goes on behind them, and the host does not wait."""
        stream = 0 if self.place is None else self.place.stream()
        while True:
            code = self._wait_once(stream)
            if code != _INTERRUPTED:
                self.session.unwaited.clear()
            if code == _OK:
                break
            if code != _INTERRUPTED:  # else Python has run the signal's handler; an exception of it leaves this loop
                self._fail(code)
        if stream != self.stream:
            self._record_stream()
        if self._error is not None:
            raise errors.copy_of(self._error)

    def _wait_once(self, stream: int) -> int:
        count = len(self.memory)
        if self.place is None:
            return lib.rueda_py_wait_batch(count, self._numbers, self._next)
        code = lib.rueda_py_wait_stream_batch(count, self._numbers, self._next, ffi.cast("void*", stream))
        begin, self._handed = self._handed, self._next[0]
        self.session.kept.all_launched([(self._numbers[index], self.memory[index]) for index in range(begin, self._handed)])
        return code

    def _fail(self, code: int) -> None:
        index = self._next[0]
        number = self._numbers[index]
        self._error = self._error or self.session.error_of(number, code)
        self._next[0] = self._handed = index + 1
        if self.place is None:
            lib.rueda_release(number)
        else:  # the device may still write
            self.session.kept.adopt(number, self.memory[index])

    def _record_stream(self) -> None:
        """Tells PyTorch's allocator that the current stream reads the gradients, too."""
        stream = self.place.current()
        for hook in self.hooks:
            if hook.parameter.grad is not None:
                hook.parameter.grad.record_stream(stream)

    def __del__(self) -> None:
        if self._next is not None:
            first = self._next[0] if self.place is None else self._handed
            for index in range(first, len(self.memory)):
                self.session.kept.adopt(self._numbers[index], self.memory[index])
