"""What goes wrong, told apart by what to do about it. Each sentence says who, what, value and limit.

A call that is wrong as it stands raises ValueError and enqueues nothing: correct it and call again. What goes wrong later
raises one of the classes below; all are `HorovodInternalError`, the name that scripts catch.
"""

import copy
from typing import Sequence

from rueda._native import ffi, lib

_MOST_NAMED = 16


class CollectiveError(RuntimeError):
    """An operation, or the session it belongs to, failed. `code` is the number in rueda.h."""

    def __init__(self, sentence: str = "", code: int = lib.RUEDA_SYSTEM):
        super().__init__(sentence)
        self.code = code


class NotInitializedError(CollectiveError):
    """There is no session, or none any more: call init()."""


class MismatchError(CollectiveError):
    """Ranks submitted different things under one name; the sentence is the same on all. The session stays usable."""


class PeerLostError(CollectiveError):
    """A rank died; the sentence names rank, host, process and cause. shutdown(), then init() again or exit."""


class ShutDownError(CollectiveError):
    """This rank, or one that the operation needs, has shut down."""


class CollectiveTimeoutError(CollectiveError, TimeoutError):
    """A deadline passed: the wait's (the operation is in flight and can be waited for again) or the operation's."""


class UnsupportedError(CollectiveError, NotImplementedError):
    """This build or machine cannot do it; the sentence says what is missing."""


class HostsUpdatedInterrupt(RuntimeError):
    """The job's hosts changed. `skip_sync`: the state of this rank is up to date."""

    def __init__(self, skip_sync: bool = False):
        super().__init__("the hosts of this job have changed")
        self.skip_sync = skip_sync


HorovodInternalError = CollectiveError

_CLASSES = {
    lib.RUEDA_NOT_INITIALIZED: NotInitializedError,
    lib.RUEDA_MISMATCH: MismatchError,
    lib.RUEDA_PEER_LOST: PeerLostError,
    lib.RUEDA_SHUT_DOWN: ShutDownError,
    lib.RUEDA_TIMEOUT: CollectiveTimeoutError,
    lib.RUEDA_UNSUPPORTED: UnsupportedError,
}


def error_of(code: int, sentence: str) -> Exception:
    """The exception for an error code of rueda.h and its sentence."""
    if code == lib.RUEDA_INVALID_ARGUMENT:
        return ValueError(sentence)
    return _CLASSES.get(code, CollectiveError)(sentence, code)


def copy_of(error: Exception) -> Exception:
    """The same without a traceback, to be raised or kept. Who keeps what was raised keeps the frames it went through, which may
    hold the keeper: only the garbage collector would end that."""
    try:
        return copy.copy(error)
    except Exception:  # a class that cannot be made of its arguments
        return CollectiveError(f"{type(error).__name__}: {error}")


def name_ranks(ranks: Sequence[int]) -> str:
    """"rank 3", "ranks 1, 2", or the first of very many."""
    more = f" and {len(ranks) - _MOST_NAMED} more" if len(ranks) > _MOST_NAMED else ""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks[:_MOST_NAMED]))}{more}"


def of_handle(number: int, code: int) -> Exception:
    """The exception for the code with which the operation of this number failed; before its release."""
    return error_of(code, ffi.string(lib.rueda_handle_error(number)).decode("utf-8", "replace"))


def last_error(code: int) -> Exception:
    """The exception for the code that a function of rueda.h just returned on this thread."""
    return error_of(code, ffi.string(lib.rueda_last_error()).decode("utf-8", "replace"))


def check(code: int) -> None:
    """Raises unless `code`, just returned on this thread by a function of rueda.h, is RUEDA_OK."""
    if code != lib.RUEDA_OK:
        raise last_error(code)
