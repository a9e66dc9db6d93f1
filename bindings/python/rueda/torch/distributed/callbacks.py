"""Names for operations that begin in callbacks of futures.

What has no name is matched by the order in which it begins, and callbacks run in an order that differs between ranks: a
future may also be complete already where one is attached, which then runs at once, on the thread that attaches it. So what
begins in a callback is named after its place, which is the same on all ranks:

    all.7                 the operation 7 of group "all" that began outside of callbacks; its future
    all.7/0, all.7/1      the first and the second callback that are attached to it; the futures that then() returns
    all.7/0/0             a callback of such a future
    all.7/0:all.0         the first operation of group "all" in a run of the callback all.7/0; its future
    all.7/0@all.3/0       the first callback that another callback, all.3/0, attaches to all.7

PyTorch's futures cannot be derived from where C++ is to see how they fail, so their type itself tells of each callback.
"""

import collections
import contextlib
import functools
import hashlib
import threading
import weakref
from typing import Any, Callable, ContextManager, Counter, Hashable, Iterator, List, NamedTuple, Optional

import torch

# Numbers begin again, so that names come again and the library does not learn new ones for ever. It refuses a name that is
# in flight, as one would be after so many later operations.
_NUMBERS = 4096
_LONGEST = 200  # bytes of a path, of the 1024 that a name can have; longer ones are replaced by a digest


class Begun(NamedTuple):
    """The beginning of an operation. path: None where ranks have no common one, as for messages. name: None where it is matched
    by order. home: the path of the callback in which it began, "" outside of all."""

    path: Optional[str]
    name: Optional[str]
    home: str

    def in_program_order(self) -> bool:
        """Whether all ranks begin it in the same order among others of this kind."""
        return self.path is not None and self.name is None


UNMATCHED = Begun(None, None, "")  # of a message, and of what was refused


class Turns:
    """Numbers what is enqueued, from 0 for each key. What is refused leaves no gap, which only this rank would have: its number
    goes to the next, unless another thread has taken a later one meanwhile. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: Counter[Hashable] = collections.Counter()

    @contextlib.contextmanager
    def take(self, key: Hashable) -> Iterator[int]:
        """The number of what is enqueued meanwhile; an exception says that it was refused."""
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


class _Place:
    """One run of a callback; of the thread that runs it. path: None where ranks cannot agree on one."""

    def __init__(self, path: Optional[str]):
        self.path = path
        self.turns = Turns()  # by group: a rank may be a member of some only


class _Followed:
    """A future whose path is known. Callbacks are counted apart for each callback that attaches some."""

    def __init__(self, path: str, home: str):
        self.path, self._home = path, home
        self._attached: Counter[str] = collections.Counter()

    def next_callback(self, attaching: str) -> str:
        suffix = "" if attaching == self._home else "@" + attaching
        number = self._attached[suffix]
        self._attached[suffix] += 1
        return _short(f"{self.path}/{number}{suffix}")


class _Thread(threading.local):
    def __init__(self) -> None:
        self.place: Optional[_Place] = None  # None: in no callback
        self.token = object()  # numbers of threads come again


_thread = _Thread()
_followed: Any = weakref.WeakKeyDictionary()  # by future
_pathless: Any = weakref.WeakSet()  # futures of messages, and what became of them


def _short(path: str) -> str:
    return path if len(path) <= _LONGEST else "~" + hashlib.blake2b(path.encode(), digest_size=16).hexdigest()


class Names:
    """Tells the operations of one group apart. For any thread."""

    def __init__(self, group: str):
        self._group = group
        self._turns = Turns()

    @contextlib.contextmanager
    def begin(self) -> Iterator[Begun]:
        """Around the enqueueing of each operation that all ranks of the group begin. ValueError: it begins in a callback for
        which ranks have no common path."""
        place = _thread.place
        if place is None:
            with self._turns.take(self._group) as number:
                yield Begun(f"{self._group}.{number % _NUMBERS}", None, "")
            return
        if place.path is None:
            raise ValueError(
                f"an operation of group {self._group!r} begins in a callback of a future that belongs to no operation of all "
                "ranks, as a message's or one of the program's own, so that ranks cannot know which one of the others' it is: "
                "wait for the future, and begin it then")  # fmt: skip
        with place.turns.take(self._group) as number:
            path = _short(f"{place.path}:{self._group}.{number}")
            yield Begun(path, f"torch.distributed.{path}", place.path)


def message() -> ContextManager[Begun]:
    """The beginning of a message: matched by its tag and order, in callbacks, too."""
    return contextlib.nullcontext(UNMATCHED)


def follow(future: Any, begun: Begun) -> None:
    """Operations that begin in callbacks of the future are from now on named after this one."""
    if begun.path is None:
        _pathless.add(future)
    else:
        _followed[future] = _Followed(begun.path, begun.home)


def _follow_from(parents: List[Any], child: Any, path: Optional[str], home: Optional[_Place]) -> None:
    """The same for what was made of futures: of one without a path only where it comes from a message."""
    if path is not None or any(parent in _pathless for parent in parents):
        follow(child, Begun(path, None, "" if home is None else home.path or ""))


def _next_callback(future: Any) -> Optional[str]:
    """The path of a callback that this thread is attaching."""
    known, place = _followed.get(future), _thread.place
    if known is None or (place is not None and place.path is None):
        return None
    return known.next_callback("" if place is None or place.path is None else place.path)


def _placed(callback: Callable[[Any], Any], path: Optional[str], parent: Any) -> Callable[[Any], Any]:
    """The callback, run in a place of this path. One without a path that runs where it was attached, in the same callback or
    outside of all, begins operations in the order of the program: it stays in that place. Not so those of messages: whether these
    have arrived by then is chance."""
    attached, token = _thread.place, _thread.token
    chance = parent in _pathless

    def run(future: Any) -> Any:
        before = _thread.place
        if path is not None or chance or before is not attached or _thread.token is not token:
            _thread.place = _Place(path)
        try:
            return callback(future)
        finally:
            _thread.place = before

    return run


def install() -> None:
    """Makes PyTorch's futures tell of their callbacks. Those of futures that no group of Rueda's has made run as before."""
    kind = torch._C.Future
    if hasattr(kind.then, "serves_rueda"):
        return
    then, add_done_callback, collect_all = kind.then, kind.add_done_callback, torch._C._collect_all

    @functools.wraps(then)
    def placed_then(self: Any, callback: Callable[[Any], Any]) -> Any:
        if not callable(callback):
            return then(self, callback)  # which says what it is to be
        path = _next_callback(self)
        home = _thread.place
        child = then(self, _placed(callback, path, self))
        _follow_from([self], child, path, home)
        return child

    @functools.wraps(add_done_callback)
    def placed_done_callback(self: Any, callback: Callable[[Any], Any]) -> None:
        if not callable(callback):
            return add_done_callback(self, callback)
        add_done_callback(self, _placed(callback, _next_callback(self), self))

    @functools.wraps(collect_all)
    def placed_collect_all(futures: List[Any]) -> Any:
        collected = collect_all(futures)
        paths = [_next_callback(future) for future in futures]
        if paths and None not in paths:
            home = _thread.place
            path = _short("(" + ",".join(str(path) for path in paths) + ")")
            _follow_from(futures, collected, path, home)
        else:
            _follow_from(futures, collected, None, None)
        return collected

    placed_then.serves_rueda = True
    kind.then, kind.add_done_callback = placed_then, placed_done_callback
    torch._C._collect_all = placed_collect_all
