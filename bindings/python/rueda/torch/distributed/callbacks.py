"""Names for operations that begin in callbacks of futures.

Operations without a name are matched by the order in which they begin, and callbacks run in an order that differs
between ranks. A callback may also run at once, on the thread that attaches it, because its future is complete already.
So an operation that begins in a callback is named after the path to that callback, which is the same on all ranks:

    all.7                 operation 7 of group "all" outside of callbacks; its future
    all.7/0, all.7/1      the first and the second callback attached to that future; the futures that then() returns
    all.7/0/0             a callback of such a future
    all.7/0:all.0         the first operation of group "all" in a run of the callback all.7/0; its future
    all.7/0@all.3/0       the first callback that another callback, all.3/0, attaches to all.7

C++ does not see how a Python subclass of PyTorch's future fails. So install() replaces methods of the future type
itself.
"""

import collections
import contextlib
import functools
import hashlib
import threading
import weakref
from typing import Any, Callable, ContextManager, Counter, Hashable, Iterator, List, NamedTuple, Optional

import torch

# Numbers wrap, so that names recur and the library's table of names stops growing. It refuses a name that is still in
# flight, which would take as many later operations.
_NUMBERS = 4096
_LONGEST = 200  # bytes of a path; a name may have 1024. Longer paths are replaced by a digest


class Begun(NamedTuple):
    """The beginning of an operation.

    path: None if ranks have no common path, as for messages. name: None if the operation is matched by its order. home:
    the path of the callback in which it began, "" outside of callbacks.
    """

    path: Optional[str]
    name: Optional[str]
    home: str

    def in_program_order(self) -> bool:
        """Returns whether all ranks begin the operation in the same order among others of this kind."""
        return self.path is not None and self.name is None


UNMATCHED = Begun(None, None, "")  # of a message, and of an operation that was refused


class Turns:
    """Numbers operations, from 0 for each key. Any thread may use it.

    A refused operation leaves no gap, since the other ranks would not have it: its number goes to the next one, unless
    another thread has taken a later number meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: Counter[Hashable] = collections.Counter()

    @contextlib.contextmanager
    def take(self, key: Hashable) -> Iterator[int]:
        """A context that yields the number of the operation enqueued in it. An exception means that it was refused."""
        with self._lock:
            number = self._next[key]
            self._next[key] = number + 1
        try:
            yield number
        except BaseException:
            with self._lock:
                if self._next[key] == number + 1:
                    self._next[key] = number
            raise


class _Run:
    """One run of a callback, on one thread. path: None if ranks have no common path."""

    def __init__(self, path: Optional[str]):
        self.path = path
        self.turns = Turns()  # by group, since a rank may be a member of only some


class _Followed:
    """The path of a future. Counts its callbacks separately for each callback that attaches some."""

    def __init__(self, path: str, home: str):
        self.path, self._home = path, home
        self._attached: Counter[str] = collections.Counter()

    def next_callback(self, attaching: str) -> str:
        """The path of the next callback that the callback with the path `attaching` attaches; "" outside of callbacks.
        """
        suffix = "" if attaching == self._home else "@" + attaching
        number = self._attached[suffix]
        self._attached[suffix] += 1
        return _short(f"{self.path}/{number}{suffix}")


class _Thread(threading.local):
    def __init__(self) -> None:
        self.run: Optional[_Run] = None  # None outside of callbacks
        self.token = object()  # identifies the thread; the numbers of threads recur


_thread = _Thread()
_followed: Any = weakref.WeakKeyDictionary()  # by future
_pathless: Any = weakref.WeakSet()  # futures of messages, and futures made of those


def _short(path: str) -> str:
    return path if len(path) <= _LONGEST else "~" + hashlib.blake2b(path.encode(), digest_size=16).hexdigest()


class Names:
    """Numbers and names the operations of one group. Any thread may use it."""

    def __init__(self, group: str):
        self._group = group
        self._turns = Turns()

    @contextlib.contextmanager
    def begin(self) -> Iterator[Begun]:
        """A context for the enqueue of an operation that all ranks of the group begin. Raises ValueError if it begins
        in a callback for which ranks have no common path."""
        running = _thread.run
        if running is None:
            with self._turns.take(self._group) as number:
                yield Begun(f"{self._group}.{number % _NUMBERS}", None, "")
            return
        if running.path is None:
            raise ValueError(
                f"an operation of group {self._group!r} begins in a callback of a future that belongs to no operation of all "
                "ranks (a message's future, or one that the program made), so ranks cannot match it; wait for the future, and begin "
                "the operation then")  # fmt: skip
        with running.turns.take(self._group) as number:
            path = _short(f"{running.path}:{self._group}.{number}")
            yield Begun(path, f"torch.distributed.{path}", running.path)


def message() -> ContextManager[Begun]:
    """A context for the enqueue of a message, which is matched by its tag and order, even in callbacks."""
    return contextlib.nullcontext(UNMATCHED)


def follow(future: Any, begun: Begun) -> None:
    """From now on operations that begin in callbacks of the future are named after the operation `begun`."""
    if begun.path is None:
        _pathless.add(future)
    else:
        _followed[future] = _Followed(begun.path, begun.home)


def _follow_from(parents: List[Any], child: Any, path: Optional[str], home: Optional[_Run]) -> None:
    """follow() for a future made of others. Without a path it is noted only if one of them comes from a message."""
    if path is not None or any(parent in _pathless for parent in parents):
        follow(child, Begun(path, None, "" if home is None else home.path or ""))


def _next_callback(future: Any) -> Optional[str]:
    """The path of a callback that this thread is attaching; None if ranks have no common one."""
    known, running = _followed.get(future), _thread.run
    if known is None or (running is not None and running.path is None):
        return None
    return known.next_callback("" if running is None or running.path is None else running.path)


def _under(callback: Callable[[Any], Any], path: Optional[str], parent: Any) -> Callable[[Any], Any]:
    """The callback, as a function that runs it under this path.

    A callback without a path may run at once, in the callback (or outside of callbacks) that attached it. Its
    operations then begin in the order of the program, as on other ranks, so it keeps the path of that callback. A
    callback of a message does not: whether the message has arrived by then is chance.
    """
    attached, token = _thread.run, _thread.token
    chance = parent in _pathless

    def run(future: Any) -> Any:
        before = _thread.run
        if path is not None or chance or before is not attached or _thread.token is not token:
            _thread.run = _Run(path)
        try:
            return callback(future)
        finally:
            _thread.run = before

    return run


def install() -> None:
    """Replaces methods of PyTorch's futures by ones that note each callback. Callbacks of futures of other backends run
    as before."""
    kind = torch._C.Future
    if hasattr(kind.then, "serves_rueda"):
        return
    then, add_done_callback, collect_all = kind.then, kind.add_done_callback, torch._C._collect_all

    @functools.wraps(then)
    def noting_then(self: Any, callback: Callable[[Any], Any]) -> Any:
        if not callable(callback):
            return then(self, callback)  # raises PyTorch's own error
        path = _next_callback(self)
        home = _thread.run
        child = then(self, _under(callback, path, self))
        _follow_from([self], child, path, home)
        return child

    @functools.wraps(add_done_callback)
    def noting_done_callback(self: Any, callback: Callable[[Any], Any]) -> None:
        if not callable(callback):
            return add_done_callback(self, callback)
        add_done_callback(self, _under(callback, _next_callback(self), self))

    @functools.wraps(collect_all)
    def noting_collect_all(futures: List[Any]) -> Any:
        collected = collect_all(futures)
        paths = [_next_callback(future) for future in futures]
        if paths and None not in paths:
            home = _thread.run
            path = _short("(" + ",".join(str(path) for path in paths) + ")")
            _follow_from(futures, collected, path, home)
        else:
            _follow_from(futures, collected, None, None)
        return collected

    noting_then.serves_rueda = True
    kind.then, kind.add_done_callback = noting_then, noting_done_callback
    torch._C._collect_all = noting_collect_all
