"""Runs one turn of a peer: processes with a limit of time, which leave nothing behind.

Each turn's processes carry a mark in their environment. At the limit the process group is killed, and then whatever still
carries the mark: mpirun puts its ranks into groups of their own, which outlive it.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time
import uuid

MARK = "RUEDA_COMPARE_TURN"


class Failed(Exception):
    """A turn gave no rows; the sentence says why."""


def marked(mark):
    """The processes whose environment has the mark."""
    wanted = f"{MARK}={mark}".encode()
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)


def end(processes, mark):
    """Kills the groups of these processes and all that carry the mark; returns when none is left."""
    for process in processes:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + 2
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.01, deadline - time.monotonic()))
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    deadline = time.monotonic() + 5
    while (left := list(marked(mark))) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def rows_in(text):
    """The objects behind the word "compare"; launchers put other words in front of a line."""
    return [json.loads(line.split("compare ", 1)[1]) for line in text.splitlines() if "compare {" in line]


def run(commands, environments, folder, limit_s):
    """Runs the commands at once and returns their rows. Raises Failed with the last words of their errors."""
    mark = uuid.uuid4().hex
    processes = []
    with open(os.path.join(folder, "out"), "w+", encoding="utf-8") as out, open(os.path.join(folder, "err"), "w+", encoding="utf-8") as err:
        try:
            for command, environment in zip(commands, environments):
                surroundings = {**os.environ, **environment, MARK: mark}
                processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=surroundings,
                                                  start_new_session=True))  # fmt: skip
            deadline = time.monotonic() + limit_s
            for process in processes:
                process.wait(max(0.01, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Failed(f"took longer than {limit_s:.0f} s and was ended") from None
        except OSError as error:
            raise Failed(f"cannot start {commands[0][0]}: {error.strerror}") from None
        finally:
            end(processes, mark)
        out.seek(0)
        err.seek(0)
        codes = [process.returncode for process in processes if process.returncode != 0]
        if codes:
            words = [line.strip() for line in err.read().splitlines() if line.strip()] or ["it said nothing"]
            raise Failed(f"ended with code {codes[0]}: {words[-1][:300]}")
        return rows_in(out.read())
