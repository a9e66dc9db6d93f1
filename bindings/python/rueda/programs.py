"""The programs in the package, as commands of the environment that it is installed in."""

import os
import sys

from rueda import timeline_summary


def path_of(program: str) -> str:
    """The path of a program in the package. Raises FileNotFoundError if this build does not have it."""
    path = os.path.join(os.path.dirname(__file__), "bin", program)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: this build of Rueda has no {program}")
    return path


def _become(program: str) -> None:
    os.execv(path_of(program), [program, *sys.argv[1:]])


def hvdrun() -> None:
    """The command hvdrun."""
    _become("hvdrun")


def rueda_build_mpi() -> None:
    """The command rueda-build-mpi."""
    _become("rueda-build-mpi")


def rueda_timeline() -> None:
    """The command rueda-timeline."""
    sys.exit(timeline_summary.main())


def rueda_perf() -> None:
    """The command rueda-perf."""
    _become("rueda-perf")
