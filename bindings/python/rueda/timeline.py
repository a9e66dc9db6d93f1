"""Starts and stops a timeline of operations while the job runs. The file is in the Trace Event Format of Chrome."""

import os

from rueda import errors, session
from rueda._native import lib


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Begins to write a timeline to a file. With "{rank}" in the path it records this rank; else rank 0's call records
    all ranks.

    mark_cycles: also records each round of agreement that released a batch. `rueda-timeline summary` summarises the
    file. Raises ValueError if a timeline is being written already, and HorovodInternalError if the file cannot be
    created.
    """
    errors.check(lib.rueda_start_timeline(session.current().local, os.fsencode(file_path), int(mark_cycles)))


def stop_timeline() -> None:
    """Ends the timeline that this rank writes. It then holds what all ranks have recorded before this call.

    Waits at most 5 seconds for other ranks. Does nothing if this rank writes no timeline. Raises HorovodInternalError
    if the file cannot be written, TimeoutError if the disk needs longer; the rest of the file is then written later.
    """
    errors.check(lib.rueda_stop_timeline(session.current().local))
