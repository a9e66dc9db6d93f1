"""Works and futures of torch.distributed, made of Rueda's handles.

A work waits for its handle on the thread that asks. A future needs a thread that waits and then runs its callbacks:
Completer has those threads.
"""

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
from rueda.torch import placed
from rueda.torch.distributed import callbacks, devices, interrupts, older
from rueda.torch.distributed.callbacks import Begun


class _Completions:
    """Counts the threads that are completing a future, for the end of the process.

    A waiter goes on before the completing thread has left PyTorch's C++. If the interpreter ended meanwhile, the
    process would be terminated there, so the exit waits for these threads.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0

    def run(self, calls: List[Any]) -> None:
        """Calls the last of `calls`, which completes one future; None: there is none. Empties the list: what it refers to
        may end here, in PyTorch's C++ again."""
        with self._changed:
            self._running += 1
        try:
            complete = calls.pop()
            if complete is not None:
                complete()
        finally:
            complete = None
            calls.clear()
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def await_all(self) -> None:
        """Waits for the threads that are completing futures, for _LAST_CALLBACKS at most."""
        with self._changed:
            self._changed.wait_for(lambda: self._running == 0, timeout=_LAST_CALLBACKS)


_LAST_CALLBACKS = 2.0  # seconds that callbacks get at exit
_completions = _Completions()
at_exit.append(_completions.await_all)


class Completer:
    """Completes the futures of one process group, on threads of its own.

    Operations that all ranks begin in one order share a queue. Its thread waits for them in that order, outside the
    GIL, and runs their callbacks. A callback may wait for another future, so a further thread starts whenever none is
    free to take the queue. Every other operation has a thread of its own: ranks may begin such operations in different
    orders, and in a queue the wait for one could block the operation that another rank waits for.

    If a wait fills the caller's tensors, as in all_gather(), the completer also waits for works that the program has
    dropped.

    Any thread may call. The lock is reentrant because a work may be deleted, and so call keep(), on a thread that holds
    it.
    """

    def __init__(self) -> None:
        # Pairs: a wait that raises nothing, then a completion or None.
        self._works: queue.SimpleQueue = queue.SimpleQueue()
        self._lock = threading.RLock()
        self._free = 0  # threads of the queue that run no callback
        self._stopped = False
        self._dropped: Deque[Handle] = collections.deque()
        interrupts.watch.enter()

    def watch(self, work: "RuedaWork") -> None:
        """Completes the work's future once the operation has ended, whether or not it succeeded. Does not block."""
        self._await(work.begun, work.await_end_aside, work.complete)

    def keep(self, handle: Handle, begun: Begun) -> None:
        """Takes over a handle that its work has dropped, and has it waited for. Does not block."""
        self._dropped.append(handle)
        self.settle()
        if handle.is_unmade:
            self._await(begun, functools.partial(_settle_aside, handle), None)

    def settle(self) -> None:
        """Makes the results of the handles it has taken over, as far as their operations have ended. Does not block."""
        for _ in range(len(self._dropped)):
            try:
                handle = self._dropped.popleft()
            except IndexError:  # another thread took the last one
                return
            if placed.is_launched(handle):
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
            self.start(_finish, [wait, complete])

    def _keep_one_free(self) -> None:
        with self._lock:
            if self._free > 0:
                return
            self._free += 1
        self.start(self._run)

    @staticmethod
    def start(run: Callable[..., None], *arguments: Any) -> None:
        """Calls `run` on a new thread."""
        threading.Thread(target=run, args=arguments, name="rueda-futures", daemon=True).start()

    def _run(self) -> None:
        while True:
            calls = list(self._works.get())
            if calls[0] is None:
                self._works.put((None, None))  # ends the next thread, too
                return
            calls[0]()
            with self._lock:
                self._free -= 1
            self._keep_one_free()
            _completions.run(calls)
            with self._lock:
                self._free += 1

    def stop(self) -> None:
        """Ends the threads of the queue after what it still holds. Does not block. Later futures have a thread each."""
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self._works.put((None, None))
                interrupts.watch.leave()


def _finish(calls: List[Any]) -> None:
    calls[0]()
    _completions.run(calls)


def _settle(handle: Handle) -> None:
    with contextlib.suppress(Exception):  # no thread waits for this work, so none gets the error
        handle.wait()


def _settle_aside(handle: Handle) -> None:
    with placed.aside(handle):
        _settle(handle)


class RuedaWork(Work):
    """One operation of a process group, with its tensors as its result.

    wait() raises what went wrong, even an error of the enqueue: an exception out of the group's method would leave
    DistributedDataParallel's C++ in an undefined state. Any thread may use a work.
    """

    def __init__(self, completer: Completer, begin: Callable[[], ContextManager[Begun]],
                 start: Callable[[Optional[str]], Handle], tensors: List[torch.Tensor],
                 finish: Optional[Callable[[], None]] = None, limit: float = 0.0, senders: Sequence[int] = ()):
        """begin: numbers and names the operation. start: enqueues it under that name. finish: runs in the wait after
        success. limit: seconds that the operation may take, 0 for RUEDA_TIMEOUT_SECONDS. senders: holds the rank of a
        message's sender, at the latest once the message has arrived."""
        super().__init__()
        self.begun = callbacks.UNMATCHED
        self._completer = completer
        self._tensors = tensors
        self._senders = senders
        self._error: Optional[BaseException] = None
        self._handle: Optional[Handle] = None
        self._future: Optional[torch.futures.Future] = None
        self._finished: Optional[torch.futures.Future] = None  # completing it completes `_future`
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
        """Makes this work finish after `works`, and fail if one of them fails. Returns this work."""
        self._before = works
        return self

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits until the tensors hold their results and the work's future, if there is one, is complete. Returns True.

        On a device the current stream waits in place of the host, unless there is a timeout.
        timeout: 0 and less mean no limit. Raises RuntimeError or ValueError if the operation failed, TimeoutError if
        the timeout has passed; the operation then goes on, and the caller may wait again.
        """
        try:
            return self._wait(timeout)
        finally:
            if self._future is not None and self._has_ended():
                self._complete_now()

    def _wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits for the tensors alone."""
        if older.kept is not None:
            older.kept.remove(self)
        if self._error is not None:
            raise errors.copy_of(self._error)
        for work in self._before:
            work.wait(timeout)
        seconds = timeout.total_seconds()
        self._handle.wait(seconds if seconds > 0 else None)
        self._completer.settle()  # dropped works that began earlier: the caller may rely on their tensors, too
        return True

    def await_end(self) -> None:
        """Waits until the operation has ended. Stores an error instead of raising it."""
        try:
            self._wait()
        except Exception as error:
            self._error = errors.copy_of(error)

    def await_end_aside(self) -> None:
        """await_end() on a thread that is not the program's."""
        with placed.aside(self._handle):
            self.await_end()

    def _has_ended(self) -> bool:
        """Whether a wait has returned or the operation has finished, on its device too."""
        return all(work._has_ended() for work in self._before) and (self._error is not None or self._handle.number == 0 or self._handle.poll())

    def _has_finished(self) -> bool:
        return all(work._has_finished() for work in self._before) and (self._error is not None or self._handle.poll())

    def exception(self) -> Optional[BaseException]:
        """The error that wait() would raise; None if the operation succeeded or has not finished."""
        return self._error if self.is_completed() else None

    def synchronize(self) -> None:
        """Waits, as wait() does: on a device the stream that is current goes on behind the operation."""
        self.wait()

    def is_completed(self) -> bool:
        """Returns whether the operation has ended, on its device too. If so, its tensors hold their results, and wait() does
        not block."""
        if not self._has_finished():
            return False
        self.await_end()  # does not block; a wait is what fills lists of tensors
        if self._future is not None:
            self._complete_now()
        return True

    def is_success(self) -> bool:
        """Returns whether the operation has ended without an error."""
        return self.is_completed() and self.exception() is None

    def result(self) -> List[torch.Tensor]:
        """Waits, and returns the tensors, those of lists one after the other."""
        self.wait()
        return [tensor for each in self._tensors for tensor in (each if isinstance(each, list) else [each])]

    def source_rank(self) -> int:
        """The rank of the group that sent the message; -1 as long as that is unknown."""
        return self._senders[0] if self._senders else -1

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future:
        """A future of the tensors, the same at each call. Callbacks run on a thread of the completer.

        The future fails by an exception in a callback, since set_exception() would crash DDP's backward pass.
        """
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
        """Completes the future unless it was broken off, and runs its callbacks on the calling thread. get_future()
        comes before."""
        if interrupts.claim(self._future) is not None:
            self._finish()

    def _complete_now(self) -> None:
        """Has a thread complete the future, unless one is doing so already, and waits until it is complete.

        Does not wait for callbacks. They must not run on a thread of the program: they would delay it, and a Ctrl-C
        meant for the program would interrupt them.
        """
        if self._future.done():
            return
        if interrupts.claim(self._future) is not None:
            self._completer.start(_completions.run, [self._finish])
        with contextlib.suppress(Exception):
            interrupts.plain_wait(self._future)

    def break_off(self) -> None:
        """Makes the future fail; the caller has claimed it. The operation goes on. Callbacks run on a thread of their
        own, since they may wait for other futures."""
        self._broken_off = True
        self._completer.start(_completions.run, [self._finish])

    def _finish(self) -> None:
        with placed.aside(self._handle):  # callbacks run on this device
            self._finished.set_result(None)

    def _outcome(self, _: Any) -> List[torch.Tensor]:
        if self._broken_off:
            raise RuntimeError("an interrupt (Ctrl-C) has ended the wait; the operation goes on")
        self._wait()
        return self._tensors

    def _fill_unasked(self) -> None:
        """Has the caller's tensors filled even if the program never waits for this work."""
        if self._handle is not None and self._handle.is_unmade:
            self._completer.keep(self._handle, self.begun)

    def __del__(self) -> None:
        self._fill_unasked()
