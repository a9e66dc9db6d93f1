"""Works and futures of torch.distributed over Rueda's handles."""

import collections
import contextlib
import functools
import queue
import threading
from datetime import timedelta
from typing import Any, Callable, ContextManager, Deque, List, Optional, Sequence

import torch
from torch._C._distributed_c10d import Work

from rueda import errors
from rueda._native import lib
from rueda.handles import Handle
from rueda.session import at_exit
from rueda.torch.distributed import callbacks, devices, interrupts, older
from rueda.torch.distributed.callbacks import Begun


class _Completions:
    """Futures that threads are completing. Who waits for one goes on before its thread is out of PyTorch's C++, and an interpreter
    that goes meanwhile would end the process there."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0

    def run(self, complete: Callable[[], None]) -> None:
        with self._changed:
            self._running += 1
        try:
            complete()
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def await_all(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._running == 0, timeout=_LAST_CALLBACKS)


_LAST_CALLBACKS = 2.0  # seconds that callbacks have at exit
_completions = _Completions()
at_exit.append(_completions.await_all)


class Completer:
    """Completes the futures of one process group. Those of operations that all ranks begin in one order have a thread, which
    waits for them in that order, outside the GIL, and runs their callbacks; as these may wait for other futures, there is
    always a thread that is in none. Other futures have a thread each: ranks may begin such operations, and ask for their
    futures, in different orders, and a wait for one would keep the next from what another rank waits for.

    What nobody holds any more is waited for in the same way where a wait fills the caller's tensors, as those of all_gather().

    For any thread; the lock can be taken again by a work that is deleted while it is held.
    """

    def __init__(self) -> None:
        self._works: queue.SimpleQueue = queue.SimpleQueue()  # of a wait that raises nothing, and what completes a future
        self._lock = threading.RLock()
        self._free = 0  # threads of the queue that are in no callback
        self._stopped = False
        self._dropped: Deque[Handle] = collections.deque()
        interrupts.watch.enter()

    def watch(self, work: "RuedaWork") -> None:
        """Completes the work's future once it has finished, however it ended."""
        self._await(work.begun, work.await_end, work.complete)

    def keep(self, handle: Handle, begun: Begun) -> None:
        """Waits for a handle that nobody else holds."""
        self._dropped.append(handle)
        self.settle()
        if handle.is_unmade:
            self._await(begun, functools.partial(_settle, handle), None)

    def settle(self) -> None:
        """Ends those handles that nobody else holds whose operations have ended. Does not block."""
        for _ in range(len(self._dropped)):
            try:
                handle = self._dropped.popleft()
            except IndexError:  # another thread was first
                return
            if handle.poll():
                _settle(handle)
            else:
                self._dropped.append(handle)

    def _await(self, begun: Begun, wait: Callable[[], Any], complete: Optional[Callable[[], None]]) -> None:
        with self._lock:
            queued = begun.in_program_order() and not self._stopped
            if queued:
                self._works.put((wait, complete))
        if queued:
            self._keep_one_free()
        else:
            self.start(_finish, wait, complete)

    def _keep_one_free(self) -> None:
        with self._lock:
            if self._free > 0:
                return
            self._free += 1
        self.start(self._run)

    @staticmethod
    def start(run: Callable[..., None], *arguments: Any) -> None:
        threading.Thread(target=run, args=arguments, name="rueda-futures", daemon=True).start()

    def _run(self) -> None:
        while True:
            wait, complete = self._works.get()
            if wait is None:
                self._works.put((None, None))  # for the next thread
                return
            wait()
            with self._lock:
                self._free -= 1
            self._keep_one_free()
            if complete is not None:
                _completions.run(complete)
            with self._lock:
                self._free += 1

    def stop(self) -> None:
        """Ends the threads of the queue behind what they still have to do."""
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self._works.put((None, None))
                interrupts.watch.leave()


def _finish(wait: Callable[[], Any], complete: Optional[Callable[[], None]]) -> None:
    wait()
    if complete is not None:
        _completions.run(complete)


def _settle(handle: Handle) -> None:
    with contextlib.suppress(Exception):  # as with a work that nobody waits for
        handle.wait()


class RuedaWork(Work):
    """One operation of a process group. `tensors` is its result. What went wrong, also at enqueue, is raised by wait(): an
    exception out of the group's method would leave DistributedDataParallel in disorder."""

    def __init__(self, completer: Completer, begin: Callable[[], ContextManager[Begun]],
                 start: Callable[[Optional[str]], Handle], tensors: List[torch.Tensor],
                 finish: Optional[Callable[[], None]] = None, limit: float = 0.0, senders: Sequence[int] = ()):
        """start: enqueues it under a name. limit: seconds it may take, 0 for RUEDA_TIMEOUT_SECONDS. senders: the rank that a message comes
        from, at the latest once it is there."""
        super().__init__()
        self.begun = callbacks.UNMATCHED
        self._completer = completer
        self._tensors = tensors
        self._senders = senders
        self._error: Optional[BaseException] = None
        self._handle: Optional[Handle] = None
        self._future: Optional[torch.futures.Future] = None
        self._finished: Optional[torch.futures.Future] = None  # completes the other
        self._broken_off = False
        self._before: List["RuedaWork"] = []
        try:
            lib.rueda_py_limit(limit)
            with begin() as begun:
                self._handle = start(begun.name)
            self.begun = begun
            if finish is not None:
                self._handle.also(lambda *_: finish())
        except (RuntimeError, ValueError) as error:
            self._error = errors.copy_of(error)
        finally:
            lib.rueda_py_limit(0.0)
        if older.kept is not None:
            older.kept.add(self)
            self._fill_unasked()

    def behind(self, works: List["RuedaWork"]) -> "RuedaWork":
        """This work, which now finishes with those and fails where one of them does."""
        self._before = works
        return self

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits until the tensors are what they are to be, and the future that was asked for is complete. timeout: 0 and less
        never pass. RuntimeError, ValueError: it failed; the sentence is Rueda's."""
        try:
            return self._wait(timeout)
        finally:
            if self._future is not None and self._has_ended():
                self._complete_now()

    def _wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """The same but for the future."""
        if older.kept is not None:
            older.kept.remove(self)
        if self._error is not None:
            raise errors.copy_of(self._error)
        for work in self._before:
            work.wait(timeout)
        seconds = timeout.total_seconds()
        self._handle.wait(seconds if seconds > 0 else None)
        self._completer.settle()  # what was begun before and is not held: its tensors are full, too
        return True

    def await_end(self) -> None:
        """Waits until it has ended, and keeps what went wrong."""
        try:
            self._wait()
        except Exception as error:
            self._error = errors.copy_of(error)

    def _has_ended(self) -> bool:
        return all(work._has_ended() for work in self._before) and (self._error is not None or self._handle.poll())

    def exception(self) -> Optional[BaseException]:
        """What wait() would raise; None as long as it has not finished."""
        return self._error if self.is_completed() else None

    def synchronize(self) -> None:
        """The same as wait(), which leaves nothing for streams to do."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether wait() would not block, and the tensors are what they are to be."""
        if not self._has_ended():
            return False
        self.await_end()  # lists of tensors are filled by a wait, which does not block here
        if self._future is not None:
            self._complete_now()
        return True

    def is_success(self) -> bool:
        """Whether it has finished and not failed."""
        return self.is_completed() and self.exception() is None

    def result(self) -> List[torch.Tensor]:
        """The tensors, once finished."""
        self.wait()
        return [tensor for each in self._tensors for tensor in (each if isinstance(each, list) else [each])]

    def source_rank(self) -> int:
        """Who sent what was received, a rank of the group; -1 before that is known."""
        return self._senders[0] if self._senders else -1

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future:
        """A future of the tensors. One that fails does so in a callback: set_exception() would crash DDP's backward."""
        if self._future is None:
            self._finished = torch.futures.Future(devices=devices.used_by(self._tensors))
            self._future = self._finished.then(self._outcome)
            callbacks.follow(self._future, self.begun)
            interrupts.expect(self._future, self)
            if self._has_ended():
                self.complete()
            else:
                self._completer.watch(self)
        return self._future

    def complete(self) -> None:
        """Completes the future, which somebody has asked for, unless it was broken off. Runs its callbacks."""
        if interrupts.claim(self._future) is not None:
            self._finish()

    def _complete_now(self) -> None:
        """The same by a thread, which may already be at it, and waits for that, but not for callbacks: those of the program are to
        run on none of its threads, where they would keep it, and where Ctrl-C would be theirs."""
        if self._future.done():
            return
        if interrupts.claim(self._future) is not None:
            self._completer.start(_completions.run, self._finish)
        with contextlib.suppress(Exception):
            interrupts.plain_wait(self._future)

    def break_off(self) -> None:
        """Makes the future fail, which the caller has claimed, and runs its callbacks on a thread: they may wait for other
        futures. The operation goes on."""
        self._broken_off = True
        self._completer.start(_completions.run, self._finish)

    def _finish(self) -> None:
        self._finished.set_result(None)

    def _outcome(self, _: Any) -> List[torch.Tensor]:
        if self._broken_off:
            raise RuntimeError("an interrupt (Ctrl-C) has ended the wait for an operation, which goes on")
        self._wait()
        return self._tensors

    def _fill_unasked(self) -> None:
        """Has the caller's tensors filled also where nobody waits for this."""
        if self._handle is not None and self._handle.is_unmade:
            self._completer.keep(self._handle, self.begun)

    def __del__(self) -> None:
        self._fill_unasked()
