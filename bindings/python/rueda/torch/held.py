"""All-reduces of many gradients that one call enqueues."""

from typing import Any, List, Optional

import torch

from rueda import _hooks, errors
from rueda._native import ffi, lib
from rueda.session import Session

_INTERRUPTED, _OK = lib.RUEDA_INTERRUPTED, lib.RUEDA_OK


def is_elsewhere(gradient: Optional[torch.Tensor], address: int) -> bool:
    """Returns whether a parameter's gradient is in other memory than the one that is reduced, even if it is the same
    tensor object. Returns False if there is no gradient."""
    return gradient is not None and (gradient.layout is not torch.strided or gradient.data_ptr() != address)


class HeldGradients(_hooks.Batch):
    """Gradients that are enqueued together. The object is also the handle of each of them.

    Hooks add gradients as long as the object is GradientReducer's current batch. After that one thread at a time uses
    it.
    """

    __slots__ = ("_numbers", "_next", "_error")

    def __init__(self, session: Session):
        super().__init__(session)
        self._numbers: Any = None  # numbers of the operations that were enqueued
        self._next: Any = None  # index of the first operation that was not waited for
        self._error: Optional[Exception] = None  # the error of the first operation that failed

    def enqueue(self, more: bool) -> int:
        """Enqueues the gradients, once. Returns how many were enqueued: fewer than there are if the library refused
        one.

        more: set if others follow soon; the engine is then not woken yet. Does not block.
        """
        count = len(self.memory)
        self._numbers, self._next = ffi.new("int64_t[]", count), ffi.new("size_t*")
        done = lib.rueda_py_start_batch(self.session.pointer, count, ffi.cast("rueda_py_request**", self.requests),
                                        ffi.cast("uintptr_t*", self.addresses), self._numbers, more)  # fmt: skip
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
        every call."""
        count = len(self.memory)
        while True:
            code = lib.rueda_py_wait_batch(count, self._numbers, self._next)
            if code != _INTERRUPTED:
                self.session.unwaited.clear()
            if code == _OK:
                break
            if code != _INTERRUPTED:  # else Python has run the signal's handler; an exception of it leaves this loop
                number = self._numbers[self._next[0]]
                self._error = self._error or self.session.error_of(number, code)
                self._next[0] += 1
                lib.rueda_release(number)
        if self._error is not None:
            raise errors.copy_of(self._error)

    def __del__(self) -> None:
        if self._next is not None:
            for index in range(self._next[0], len(self.memory)):
                self.session.kept.adopt(self._numbers[index], self.memory[index])
