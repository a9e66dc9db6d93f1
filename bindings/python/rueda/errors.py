"""The exceptions of Rueda. Each class stands for one thing that the caller can do about the error.

A call with wrong arguments raises ValueError and enqueues nothing: correct it and call again. A later failure raises a
subclass of CollectiveError, which scripts catch under the name `HorovodInternalError`. HostsUpdatedInterrupt reports no
failure and has a class of its own. A wait raises ValueError if the output that was given does not have the shape that
arrived.
"""

import copy
from typing import Sequence

from rueda._native import ffi, lib

_MOST_NAMED = 16


class CollectiveError(RuntimeError):
    """An operation failed, or the session it belongs to. `code` is the error's number in rueda.h."""

    def __init__(self, sentence: str = "", code: int = lib.RUEDA_SYSTEM):
        super().__init__(sentence)
        self.code = code


class NotInitializedError(CollectiveError):
    """The process has no session: call init()."""


class MismatchError(CollectiveError):
    """Ranks submitted different operations under one name. All of them get the same sentence. The session stays usable.
    """


class PeerLostError(CollectiveError):
    """A rank died. The sentence names its rank, host, process and cause. Call shutdown(), then init() again, or exit;
    in an elastic job elastic.run or reset() joins the next plan."""


class ShutDownError(CollectiveError):
    """This rank has shut down, or another rank that the operation needs. Call shutdown(), then init() again, or exit.
    """


class CollectiveTimeoutError(CollectiveError, TimeoutError):
    """A deadline passed. If it was the wait's, the operation is still in flight: wait again. If it was the operation's,
    that has failed."""


class UnsupportedError(CollectiveError, NotImplementedError):
    """This build or machine cannot run the operation. The sentence says what is missing."""


class RemovedError(CollectiveError):
    """The elastic job goes on without this process. Exit with code 0."""


class HostsUpdatedInterrupt(RuntimeError):
    """Workers of the job are about to come or go; nothing has failed. `skip_sync`: workers only go, so the states need not
    be made equal."""

    at_commit = False  # whether commit() has raised it, so that the state is the one that was just saved

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
    lib.RUEDA_REMOVED: RemovedError,
}


def error_of(code: int, sentence: str) -> Exception:
    """The exception for an error code of rueda.h and its sentence."""
    if code == lib.RUEDA_INVALID_ARGUMENT:
        return ValueError(sentence)
    return _CLASSES.get(code, CollectiveError)(sentence, code)


def copy_of(error: Exception) -> Exception:
    """A copy of an exception without its traceback, to raise or to store.

    A stored traceback keeps the frames that it went through alive, which may refer to the object that stores it. Only
    the garbage collector would free such a cycle.
    """
    try:
        return copy.copy(error)
    except Exception:  # the class cannot be constructed from its arguments
        return CollectiveError(f"{type(error).__name__}: {error}")


def name_ranks(ranks: Sequence[int]) -> str:
    """"rank 3", "ranks 1, 2", or the first 16 of more."""
    more = f" and {len(ranks) - _MOST_NAMED} more" if len(ranks) > _MOST_NAMED else ""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks[:_MOST_NAMED]))}{more}"


def of_handle(number: int, code: int) -> Exception:
    """The exception for the code with which an operation failed. number: of its handle, not yet released."""
    return error_of(code, ffi.string(lib.rueda_handle_error(number)).decode("utf-8", "replace"))


def last_error(code: int) -> Exception:
    """The exception for the code that a function of rueda.h has just returned on this thread."""
    return error_of(code, ffi.string(lib.rueda_last_error()).decode("utf-8", "replace"))


def check(code: int) -> None:
    """Raises last_error(code) unless the code, which a function of rueda.h has just returned on this thread, is
    RUEDA_OK."""
    if code != lib.RUEDA_OK:
        raise last_error(code)
