"""A timeline of operations, started and stopped while the job runs."""

import os

from rueda import errors, session
from rueda._native import lib


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Begins to write a timeline to this file: of all ranks, when rank 0 calls this; of this rank, with {rank} in the path.

    mark_cycles: with each round of agreement that let a batch go. `rueda-timeline summary` says what is in it.
    ValueError: one is being written. HorovodInternalError: the file cannot be made.
    """
    errors.check(lib.rueda_start_timeline(session.current().pointer, os.fsencode(file_path), int(mark_cycles)))


def stop_timeline() -> None:
    """Ends the timeline that this rank writes, with what all ranks have recorded by now."""
    errors.check(lib.rueda_stop_timeline(session.current().pointer))
