"""All-reduces of many gradients, enqueued by one call."""

from typing import Any, List, Optional

import torch

from rueda import _hooks, errors
from rueda._native import ffi, lib
from rueda.session import Session

_INTERRUPTED, _OK = lib.RUEDA_INTERRUPTED, lib.RUEDA_OK


def is_elsewhere(gradient: Optional[torch.Tensor], address: int) -> bool:
    """Whether a parameter's gradient lies in other memory than what is reduced, also where it is the same tensor; None does not."""
    return gradient is not None and (gradient.layout is not torch.strided or gradient.data_ptr() != address)


class HeldGradients(_hooks.Batch):
    """Gradients that wait for a call, and then, by the same object, for their end: it is the handle of each of them. Hooks add
    to it as long as GradientReducer holds it; after that one thread at a time uses it.
    """

    __slots__ = ("_numbers", "_next", "_error")

    def __init__(self, session: Session):
        super().__init__(session)
        self._numbers: Any = None  # of the operations that were enqueued
        self._next: Any = None  # the first that was not waited for
        self._error: Optional[Exception] = None  # of the first that failed

    def enqueue(self, more: bool) -> int:
        """Enqueues what is held and returns how many it are; fewer than were held if one could not be. Once.

        more: others follow, so nobody is woken yet."""
        count = len(self.memory)
        self._numbers, self._next = ffi.new("int64_t[]", count), ffi.new("size_t*")
        done = lib.rueda_py_start_batch(self.session.pointer, count, ffi.cast("rueda_py_request**", self.requests),
                                        ffi.cast("uintptr_t*", self.addresses), self._numbers, more)  # fmt: skip
        del self.memory[done:]  # the others are kept while the operations may touch them
        return done

    def release_hooks(self, done: int) -> None:
        """All but the first `done` are not enqueued."""
        for hook in self.hooks[done:]:
            hook.handle = None
        del self.hooks[done:]

    def replaced(self) -> List[Any]:
        """The hooks whose parameters have other gradients by now, in other memory than what is reduced."""
        addresses = ffi.cast("uintptr_t*", self.addresses)
        return [hook for number, hook in enumerate(self.hooks) if is_elsewhere(hook.parameter.grad, addresses[number])]

    def wait(self) -> None:
        """Waits for all, and then raises what the first that failed failed with, each time. Signals are handled meanwhile."""
        count = len(self.memory)
        while True:
            code = lib.rueda_py_wait_batch(count, self._numbers, self._next)
            if code == _OK:
                break
            if code != _INTERRUPTED:  # else Python has run the signal's handler; what it raised has left this loop
                number = self._numbers[self._next[0]]
                self._error = self._error or self.session.error_of(number, code)
                self._next[0] += 1
                lib.rueda_release(number)
        if self._error is not None:
            raise errors.copy_of(self._error)

    def __del__(self) -> None:
        if self._next is not None:
            for index in range(self._next[0], len(self.memory)):
                self.session.adopt(self._numbers[index], self.memory[index])
