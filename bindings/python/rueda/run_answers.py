"""The answers of run()'s ranks: lines in what they print, which hvdrun forwards from every host.

    MARK RANK KIND BASE64\\n        KIND: "more", or on the last piece of an answer "result" or "failure"

MARK is a random word. The caller draws it for each job and passes it to its ranks in their environment, so that nothing
a function prints is taken for an answer. A line has at most 4096 bytes and is written by one call: a pipe takes that
much without another writer's bytes in between (PIPE_BUF).
"""

import base64
import os
import re
from typing import Callable, Dict, List, Tuple

MARK_VARIABLE = "RUEDA_RUN_MARK"

_PIECE_BYTES = 3000  # 4000 in base64, so that the words before them fit into the line

_HVDRUN_TAG = re.compile(rb"\A(\[\d+\]<stdout>:)")
_MPIRUN_TAG = re.compile(rb"(\[1,\d+\]<stdout>:)")


class Answer:
    """The rank's side. Writes to a duplicate of descriptor 1, since the function may close or redirect that and
    sys.stdout."""

    def __init__(self, mark: str, rank: int):
        self._descriptor = os.dup(1)
        self._head = f"{mark} {rank} "

    def say(self, kind: str, body: bytes) -> None:
        """Writes the answer. kind: result or failure. Blocks until all of it is written."""
        # The duplicate shares this flag with descriptor 1; an event loop may have changed it.
        os.set_blocking(self._descriptor, True)
        self._write("more", b"")  # ends a line that the function has left open; hvdrun would cut a very long one
        last = max(0, len(body) - 1) // _PIECE_BYTES * _PIECE_BYTES
        for start in range(0, last + 1, _PIECE_BYTES):
            self._write(kind if start == last else "more", body[start : start + _PIECE_BYTES])

    def _write(self, kind: str, piece: bytes) -> None:
        line = f"{self._head}{kind} ".encode() + base64.b64encode(piece) + b"\n"
        while line:
            line = line[os.write(self._descriptor, line) :]


class Answers:
    """The caller's side: takes the answers out of what hvdrun prints, and passes all other lines on, whole and as they
    come."""

    def __init__(self, mark: str, pass_on: Callable[[bytes], None], mpirun: bool):
        """mpirun: set if mpirun prints, as after hvdrun --mpi. It cuts a rank's line wherever a read ends, goes on with
        another rank's, and writes a tag before each part."""
        self.results: Dict[int, bytes] = {}
        self.failures: Dict[int, str] = {}  # in the order of their arrival
        self._answer = re.compile(mark.encode() + rb" (\d+) (more|result|failure) ([A-Za-z0-9+/=]*)\Z")
        self._pass_on = pass_on
        self._tag = _MPIRUN_TAG if mpirun else _HVDRUN_TAG
        self._rest: List[bytes] = []  # pieces of a line that has no end yet
        self._parts: Dict[bytes, bytes] = {}  # of a rank's unfinished line, by its tag
        self._pieces: Dict[int, List[bytes]] = {}  # of an unfinished answer, by rank

    def feed(self, data: bytes) -> None:
        """Takes the next bytes that were read, which may end anywhere."""
        head, newline, tail = data.rpartition(b"\n")
        if not newline:
            return self._rest.append(data)
        lines = b"".join([*self._rest, head]).split(b"\n")
        self._rest = [tail] if tail else []
        kept = b"".join([self._take(tag, line) for whole in lines for tag, line in self._lines_of_ranks(whole)])
        if kept:
            self._pass_on(kept)

    def end(self) -> None:
        """Passes on what is left, which has no newline. Nothing comes after."""
        left = [*(tag + part for tag, part in self._parts.items()), *self._rest]
        if left:
            self._pass_on(b"".join(left))

    def _lines_of_ranks(self, line: bytes) -> List[Tuple[bytes, bytes]]:
        """The lines of ranks that are complete with this line, as tag and text. From hvdrun that is always just this
        one."""
        before, *parts = self._tag.split(line)
        if not parts:
            return [(b"", line)]
        for tag, text in zip(parts[:-2:2], parts[1:-2:2]):
            self._parts[tag] = self._parts.get(tag, b"") + text
        tag, text = parts[-2:]
        return ([(b"", before)] if before else []) + [(tag, self._parts.pop(tag, b"") + text)]

    def _take(self, tag: bytes, line: bytes) -> bytes:
        """The part of a line to pass on. Text before an answer was printed by the function without a newline."""
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
    """Removes the answers from a file of what a rank printed, which hvdrun wrote. In place: writing never overtakes
    reading."""
    with open(path, "rb") as whole, open(path, "r+b") as kept:
        answers = Answers(mark, lambda data: kept.write(data) and None, mpirun)
        while data := whole.read(1 << 20):
            answers.feed(data)
        answers.end()
        kept.truncate()
