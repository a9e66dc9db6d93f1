"""The processes of a job under chaos, by a mark in their environment that is its alone."""

import os
import pathlib

from job import MARK


def marked(mark):
    """The processes that have a mark."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue  # gone, or of another user
        if wanted in variables.split(b"\0"):
            found.append(pid)
    return found
