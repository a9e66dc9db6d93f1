"""What chaos has a job bear beside its faults: strangers at its ports, and limits."""

import os
import resource
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_WORDS = ("ulimit -n", "Too many open files", "Error 24")  # the last is the dynamic loader's


class Crowd:
    """Strangers at every listening port of a job, as a program beside it. It finds the job by its mark, in the job's room."""

    def __init__(self, room, mark, seed):
        words = room.command(HERE, [sys.executable, "-B", os.path.join(HERE, "crowd.py"), mark, str(seed)])
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.visits = int((self._process.communicate()[0].splitlines() or ["0"])[-1])

    def until_enough(self):
        """Waits until each port has had its visits. Returns whether it has."""
        return self._process.stdout.readline().startswith("enough")


def let_in_few(pid, chance):
    """Lowers how many descriptors a process may open. Returns the new limit."""
    limit = chance.randint(3, 48)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
    return limit
