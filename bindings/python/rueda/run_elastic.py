"""run() of an elastic job: its flags, the call for its workers, and the results of those that return.

    caller --environment--> hvdrun --> every worker     the pickles of launch.py as text, in pieces
    caller <--stdout of hvdrun-- every worker           answers (run_answers.py) that begin with "PLAN RANK" and a newline
    caller <--stderr of hvdrun--                        passed on; hvdrun's own last lines say why a job failed

A worker that starts later meets the others only within the function, and the one with hvdrun's standard input may be
dead by then. So all workers have the call in their environment, which hvdrun passes on to every host.
"""

import base64
import collections
import contextvars
import os
import pickle
import re
import threading
from typing import IO, Any, Deque, Dict, List, Optional, Tuple

from rueda.arguments import whole_number
from rueda.run_answers import Answers

CALL = "RUEDA_RUN_CALL_"  # and the number of the piece, from 0
_PIECE = 120_000  # characters; Linux takes 128 KiB as one variable
_MOST_BYTES = 1 << 20  # of the call. Linux takes 2 MiB as arguments and variables of a program if its stack may have 8
_MOST_WORKERS = 65536  # hvdrun's limit
_LAST_LINES = 5
_OWN_LINE = re.compile(rb"hvdrun: (?! |its last lines)")  # and no line of a worker's that it repeats

# More flags of hvdrun for what is started in this context, by modules whose defaults are not hvdrun's.
more_flags: "contextvars.ContextVar[Tuple[str, ...]]" = contextvars.ContextVar("more_flags", default=())


class Elastic:
    """What run() does for an elastic job besides what it does for every job. words: the flags.

    num_proc: the workers to start with. given: run()'s arguments of elastic jobs that are not None, by their names.
    Raises ValueError if they contradict each other, or are not what hvdrun takes.
    """

    def __init__(self, num_proc: int, given: Dict[str, Any], use_mpi: Any):
        if "min_num_proc" not in given and "host_discovery_script" not in given:
            raise ValueError(f"run({next(iter(given))}=...) is for elastic jobs; give min_num_proc= or host_discovery_script= as well")
        if use_mpi:
            raise ValueError("run(use_mpi=True) cannot start elastic jobs")
        self._least = whole_number("min_num_proc", given.get("min_num_proc", num_proc), 1, num_proc)
        self.words = ["--min-np", str(self._least), *more_flags.get()]
        for name, flag, least in (("max_num_proc", "--max-np", num_proc), ("slots", "--slots-per-host", 1), ("reset_limit", "--reset-limit", 0)):
            if name in given:
                self.words += [flag, str(whole_number(name, given[name], least, _MOST_WORKERS))]
        if "cooldown_range" in given:
            self.words += ["--blacklist-cooldown-range", *_seconds_of(given["cooldown_range"])]
        if "host_discovery_script" in given:
            self.words += ["--host-discovery-script", os.fspath(given["host_discovery_script"])]
        self._said: Deque[str] = collections.deque(maxlen=_LAST_LINES)  # by hvdrun itself
        self._thread: Optional[threading.Thread] = None

    def follow(self, stream: Any) -> None:
        """Passes hvdrun's standard error on to descriptor 2, on a thread that ends with it, and keeps hvdrun's own last
        lines."""
        self._thread = threading.Thread(target=self._follow, args=(stream,), name="rueda-run-stderr")
        self._thread.start()

    def followed(self) -> None:
        """Waits until hvdrun's standard error has ended."""
        if self._thread is not None:
            self._thread.join()

    def _follow(self, stream: Any) -> None:
        read_by_somebody, rest = True, b""
        while data := stream.read(1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            self._said.extend(line.decode(errors="replace") for line in lines if _OWN_LINE.match(line))
            try:
                while read_by_somebody and data:
                    data = data[os.write(2, data) :]
            except OSError:
                read_by_somebody = False  # the job goes on

    def results(self, code: int, answers: Answers) -> List[Any]:
        """The results of the first min_num_proc ranks of the last plan, once hvdrun has ended with `code`. Workers that had
        returned before that plan come behind its ranks. Raises RuntimeError as run() does."""
        parted = ((number, _parted(body)) for number, body in answers.results.items())
        placed = sorted((-plan, rank, number, body) for number, (plan, rank, body) in parted)
        if code == 0 and len(placed) >= self._least:
            return [pickle.loads(body) for *_, body in placed[: self._least]]
        failures = [_parted(text.encode()) for text in answers.failures.values()]
        last = max((plan for plan, _, _ in failures), default=0)  # the job has survived what failed in plans before
        why = next((body.decode() for plan, _, body in failures if plan == last), "")
        what = f"hvdrun ended with code {code}" if code != 0 else f"only {len(placed)} of at least {self._least} workers (min_num_proc) returned a result"
        raise RuntimeError("\n".join(filter(None, [f"run(): {what}:", *self._said, why])))


def _seconds_of(cooldown_range: Any) -> List[str]:
    if not isinstance(cooldown_range, (list, tuple)) or len(cooldown_range) != 2:
        raise ValueError(f"cooldown_range is {cooldown_range!r}; give two whole numbers of seconds, the least and the most")
    most = whole_number("cooldown_range[1]", cooldown_range[1], 1, 3600)
    return [str(whole_number("cooldown_range[0]", cooldown_range[0], 1, most)), str(most)]


def _parted(body: bytes) -> Tuple[int, int, bytes]:
    place, _, rest = body.partition(b"\n")
    plan, rank = map(int, place.split())
    return plan, rank, rest


def call_in_environment(call: IO[bytes]) -> Dict[str, str]:
    """The variables that carry the call to workers. Raises ValueError if it is too large."""
    body = call.read()
    if len(body) > _MOST_BYTES:
        raise ValueError(f"run(): the pickled function and its arguments have {len(body)} bytes; those of an elastic job may have {_MOST_BYTES}; "
                         "let the function read large values from files")  # fmt: skip
    text = base64.b85encode(body).decode()
    return {f"{CALL}{start // _PIECE}": text[start : start + _PIECE] for start in range(0, len(text), _PIECE)}
