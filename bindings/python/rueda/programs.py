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


def become(program: str, *first: str) -> None:
    """Replaces this process by a program in the package, with the words of this one's command line behind those of `first`.
    Raises FileNotFoundError as path_of() does."""
    os.execv(path_of(program), [program, *first, *sys.argv[1:]])


def hvdrun() -> None:
    """The command hvdrun."""
    become("hvdrun")


def rueda_build_mpi() -> None:
    """The command rueda-build-mpi."""
    become("rueda-build-mpi")


def rueda_timeline() -> None:
    """The command rueda-timeline."""
    sys.exit(timeline_summary.main())


def rueda_perf() -> None:
    """The command rueda-perf."""
    become("rueda-perf")
