"""What a coming plan of an elastic job changes. A plan is the list of the workers that are its ranks."""

import enum

from rueda import session
from rueda._native import lib


class HostUpdateResult(enum.IntFlag):
    """What a coming plan changes."""

    no_update = 0
    removed = 1  # workers go
    added = 2  # workers come
    mixed = 3


def is_over() -> bool:
    """Returns whether the job that this rank is in has ended, so that its operations fail. False before init()."""
    known = session.current_or_none()
    return known is not None and lib.rueda_session_status(known.pointer) != lib.RUEDA_OK
