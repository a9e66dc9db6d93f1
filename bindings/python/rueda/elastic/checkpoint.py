"""Commits of a training in a folder, which outlive the job.

A file is a line and a payload:

    rueda checkpoint 1 <bytes of the payload> <SHA-256 of the payload>, filled with spaces ... \\n
    payload

Its name has two numbers, "000002-000000000040.checkpoint": the generation and the commit. Each job that resumes from a
folder begins a generation. So what a dying job still writes is older than everything that the job after it writes.

A file gets its name when it is whole and on the disk. Then the two newest files stay, and older ones go.
"""

import contextlib
import hashlib
import io
import os
import re
import socket
import warnings
from typing import Any, Callable, List, NamedTuple, Set, Tuple

_HEADER = 128  # bytes, with the end of the line
_KEPT = 2
_NAME = re.compile(r"(\d{6})-(\d{12})\.checkpoint")
_UNFINISHED = re.compile(r"(\d{6})-\d{12}\.unfinished\..+")
_PIECE = 1 << 20


class Found(NamedTuple):
    """A commit that was read. contents is None, and generation and commit are 0, if the folder has none."""

    generation: int = 0
    commit: int = 0
    contents: Any = None
    path: str = ""


class DumpError(Exception):
    """dump() has refused the contents; its error is the cause. Nothing is left of the file."""


class _Hashed:
    """A file that hashes and counts what is written to it."""

    def __init__(self, file: Any):
        self._file, self._digest, self.bytes = file, hashlib.sha256(), 0
        self.failure: Any = None  # why a write failed; PyTorch turns that into an error of its own

    def write(self, piece: Any) -> int:
        """All of the piece."""
        try:
            self._file.write(piece)
        except OSError as error:
            self.failure = error
            raise
        self._digest.update(piece)
        self.bytes += memoryview(piece).nbytes
        return memoryview(piece).nbytes

    def flush(self) -> None:
        """As files do."""
        self._file.flush()

    def header(self) -> bytes:
        """The first line for what was written."""
        return _header(self.bytes, self._digest.hexdigest())


class _Payload(io.RawIOBase):
    """What is behind the first line of a file, as a file of its own."""

    def __init__(self, file: Any):
        self._file = file
        self.seek(0)

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As files do."""
        return self._file.seek(offset + (_HEADER if whence == os.SEEK_SET else 0), whence) - _HEADER

    def readinto(self, memory: Any) -> int:
        """As files do."""
        return self._file.readinto(memory)


def _header(count: int, digest: str) -> bytes:
    return f"rueda checkpoint 1 {count} {digest}".ljust(_HEADER - 1).encode() + b"\n"


class Checkpoints:
    """The commits of one training in a folder. dump(contents, file) and load(file): as those of pickle.

    Makes the folder. Raises OSError, which names it, if this process cannot write there. One thread at a time uses it.
    """

    def __init__(self, folder: Any, dump: Callable[[Any, Any], None], load: Callable[[Any], Any]):
        self.folder = os.fspath(folder)
        self._dump, self._load = dump, load
        self._broken: Set[str] = set()  # names of files that could not be read
        self._end = f"{socket.gethostname()}.{os.getpid()}"
        probe = os.path.join(self.folder, f".{self._end}")
        try:
            os.makedirs(self.folder, exist_ok=True)
            with open(probe, "wb"):
                os.unlink(probe)
        except OSError as error:
            raise OSError(error.errno, f"checkpoint={self.folder!r}: this process cannot write there: {error.strerror}; give a folder that all "
                          "workers may write to") from error  # fmt: skip

    def newest(self) -> Found:
        """Reads the newest commit that is whole; warns of newer ones that are not. Raises ValueError, which names them, if
        there are files and none is whole."""
        reasons: List[str] = []
        while True:
            names = [name for name in self._names() if name not in self._broken]
            if not names:
                break
            path = os.path.join(self.folder, names[-1])
            try:
                found = self._read(names[-1])
            except Exception as error:  # load() may raise anything
                if os.path.exists(path):
                    self._broken.add(names[-1])
                    reasons.append(f"{path}: {error}")
                continue  # without the file: the job that writes here has removed it, and written a newer one
            if reasons:
                warnings.warn(f"{'; '.join(reasons)}; the training goes on from {found.path}", RuntimeWarning, stacklevel=2)
            return found
        if reasons:
            raise ValueError(f"no checkpoint can be read: {'; '.join(reasons)}; remove the files to begin anew")
        return Found()

    def _names(self) -> List[str]:
        """The oldest first."""
        return sorted(name for name in os.listdir(self.folder) if _NAME.fullmatch(name))

    def _read(self, name: str) -> Found:
        path = os.path.join(self.folder, name)
        with open(path, "rb", buffering=0) as file:
            _require_whole(file)
            contents = self._load(io.BufferedReader(_Payload(file), _PIECE))
        generation, commit = map(int, _NAME.fullmatch(name).groups())  # type: ignore[union-attr]
        return Found(generation, commit, contents, path)

    def write(self, generation: int, commit: int, contents: Any) -> None:
        """Writes a commit. It is on the disk, and will be found by newest(), when this returns. A process that dies
        meanwhile, at any moment, leaves the commits before as they were.

        Raises OSError, which names the file, if the disk is full or fails, RuntimeError if another job writes to the
        folder, and DumpError if dump() refuses the contents. Then the commits before are as they were.
        """
        name = f"{generation:06}-{commit:012}.checkpoint"
        self._require_own(name)
        unfinished = os.path.join(self.folder, name.replace("checkpoint", "unfinished") + f".{self._end}")
        try:
            with contextlib.ExitStack() as undo:
                undo.callback(_remove, unfinished)
                self._write_file(unfinished, contents)
                os.replace(unfinished, os.path.join(self.folder, name))
                undo.pop_all()
            _write_through(self.folder)
            self._broken.discard(name)
            self._remove_older(generation)
        except OSError as error:
            raise OSError(error.errno, f"commit {commit} cannot be written to {os.path.join(self.folder, name)!r}: {error.strerror}; the "
                          "commits before are whole, and a new job goes on from them") from error  # fmt: skip

    def _require_own(self, name: str) -> None:
        newer = [each for each in self._names() if each > name and each not in self._broken]
        if newer:
            raise RuntimeError(f"checkpoint={self.folder!r} has {newer[-1]}, which is newer than this job's {name}: another job writes there; give "
                               "each job a folder of its own")  # fmt: skip

    def _write_file(self, path: str, contents: Any) -> None:
        with open(path, "wb", buffering=_PIECE) as file:
            file.write(bytes(_HEADER))
            payload = _Hashed(file)
            try:
                self._dump(contents, payload)
            except Exception as error:
                if payload.failure is not None:
                    raise payload.failure
                raise DumpError(str(error)) from error
            file.seek(0)
            file.write(payload.header())
            file.flush()
            os.fsync(file.fileno())

    def _remove_older(self, generation: int) -> None:
        """Removes all but the newest whole files, and what writers have left that died."""
        whole = [name for name in self._names() if name not in self._broken]
        gone = set(self._broken) | set(whole[:-_KEPT])
        for name in os.listdir(self.folder):
            found = _UNFINISHED.fullmatch(name)
            if name in gone or (found and int(found[1]) <= generation):
                _remove(os.path.join(self.folder, name))
        self._broken.clear()


def _require_whole(file: Any) -> None:
    """Raises ValueError unless the file is as it was written."""
    header = file.read(_HEADER)
    words = header.split()
    if len(header) < _HEADER or words[:3] != [b"rueda", b"checkpoint", b"1"] or len(words) != 5:
        raise ValueError(f"is not a checkpoint, or not whole: it begins with {header[:24]!r}")
    count, digest = _measured(file)
    if count != int(words[3]):
        raise ValueError(f"is not whole: it has {count} bytes behind its first line, which says {int(words[3])}")
    if digest != words[4].decode():
        raise ValueError(f"is damaged: the SHA-256 of its contents is {digest}, and its first line says {words[4].decode()}")


def _measured(file: Any) -> Tuple[int, str]:
    digest, count = hashlib.sha256(), 0
    while piece := file.read(_PIECE):
        digest.update(piece)
        count += len(piece)
    return count, digest.hexdigest()


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _write_through(folder: str) -> None:
    """Has the disk keep the folder's names."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
