"""What ranks of run() answer: lines between those that they print, which hvdrun brings from every host.

    MARK RANK KIND BASE64\\n        KIND: more, or what the pieces of this rank are by now: result or failure

MARK is a random word that the caller has drawn for this job and gives its ranks in their environment: what a function prints,
wherever it has that from, is no answer. A line has at most 4096 bytes and is written at once, so that no other writer of the
rank's comes between: that much a pipe takes whole.
"""

import base64
import os
import re
from typing import Callable, Dict, List, Tuple

MARK_VARIABLE = "RUEDA_RUN_MARK"

_PIECE_BYTES = 3000  # 4000 as base64, which leaves room for the words before it

_HVDRUN_TAG = re.compile(rb"\A(\[\d+\]<stdout>:)")
_MPIRUN_TAG = re.compile(rb"(\[1,\d+\]<stdout>:)")


class Answer:
    """The rank's side. Writes to a duplicate of what was descriptor 1 as this was made: what becomes of that one and of sys.stdout
    is the function's business."""

    def __init__(self, mark: str, rank: int):
        self._descriptor = os.dup(1)
        self._head = f"{mark} {rank} "

    def say(self, kind: str, body: bytes) -> None:
        """kind: result or failure. Blocks until all of it has been written."""
        os.set_blocking(self._descriptor, True)  # a flag that descriptor 1 shares, and an event loop may have changed
        self._write("more", b"")  # the end of what the function has left without one; hvdrun cuts lines that are very long
        last = max(0, len(body) - 1) // _PIECE_BYTES * _PIECE_BYTES
        for start in range(0, last + 1, _PIECE_BYTES):
            self._write(kind if start == last else "more", body[start : start + _PIECE_BYTES])

    def _write(self, kind: str, piece: bytes) -> None:
        line = f"{self._head}{kind} ".encode() + base64.b64encode(piece) + b"\n"
        while line:
            line = line[os.write(self._descriptor, line) :]


class Answers:
    """The caller's side: takes the answers out of what hvdrun prints, and passes whole lines of all else on as they come."""

    def __init__(self, mark: str, pass_on: Callable[[bytes], None], mpirun: bool):
        """mpirun: whether it is mpirun that prints, as after hvdrun --mpi. That one cuts lines where its reads of a rank end, goes
        on with another rank's, and puts a tag before each part."""
        self.results: Dict[int, bytes] = {}
        self.failures: Dict[int, str] = {}  # in the order in which they came
        self._answer = re.compile(mark.encode() + rb" (\d+) (more|result|failure) ([A-Za-z0-9+/=]*)\Z")
        self._pass_on = pass_on
        self._tag = _MPIRUN_TAG if mpirun else _HVDRUN_TAG
        self._rest: List[bytes] = []  # of a line of which the end is to come
        self._parts: Dict[bytes, bytes] = {}  # of a rank's line, by its tag
        self._pieces: Dict[int, List[bytes]] = {}  # of an answer, by rank

    def feed(self, data: bytes) -> None:
        """What was read, cut anywhere."""
        head, newline, tail = data.rpartition(b"\n")
        if not newline:
            return self._rest.append(data)
        lines = b"".join([*self._rest, head]).split(b"\n")
        self._rest = [tail] if tail else []
        kept = b"".join([self._take(tag, line) for whole in lines for tag, line in self._lines_of_ranks(whole)])
        if kept:
            self._pass_on(kept)

    def end(self) -> None:
        """No more comes: what is left has no newline."""
        left = [*(tag + part for tag, part in self._parts.items()), *self._rest]
        if left:
            self._pass_on(b"".join(left))

    def _lines_of_ranks(self, line: bytes) -> List[Tuple[bytes, bytes]]:
        """The lines of ranks that end with this one, as tag and text. Of hvdrun's it is always that one."""
        before, *parts = self._tag.split(line)
        if not parts:
            return [(b"", line)]
        for tag, text in zip(parts[:-2:2], parts[1:-2:2]):
            self._parts[tag] = self._parts.get(tag, b"") + text
        tag, text = parts[-2:]
        return ([(b"", before)] if before else []) + [(tag, self._parts.pop(tag, b"") + text)]

    def _take(self, tag: bytes, line: bytes) -> bytes:
        """What of the line is to be passed on. Before an answer may stand what the function has printed without a newline."""
        found = self._answer.search(line)
        if found is None:
            return tag + line + b"\n"
        rank, kind = int(found[1]), found[2]
        pieces = self._pieces.setdefault(rank, [])
        pieces.append(base64.b64decode(found[3]))
        if kind == b"result":
            self.results[rank] = b"".join(self._pieces.pop(rank))
        elif kind == b"failure":
            self.failures[rank] = b"".join(self._pieces.pop(rank)).decode()
        before = line[: found.start()]
        return tag + before + b"\n" if before else b""


def remove_answers(path: str, mark: str, mpirun: bool) -> None:
    """From a file that hvdrun has written of what a rank printed; in place, as what is kept is never ahead of what was read."""
    with open(path, "rb") as whole, open(path, "r+b") as kept:
        answers = Answers(mark, lambda data: kept.write(data) and None, mpirun)
        while data := whole.read(1 << 20):
            answers.feed(data)
        answers.end()
        kept.truncate()
