"""A rank that run() has started. Calls the function that it gets from the caller. Usage: python -m rueda.run_rank

Ranks on other hosts share nothing with the caller but what hvdrun forwards over ssh: standard input, to rank 0, what
ranks print, and the environment. Rank 0 reads the call and broadcasts it to the others, in a session that ends before
the function begins. In an elastic job each worker has the call in its environment (run_elastic.py).
"""

import base64
import contextlib
import io
import os
import pickle
import sys
import traceback
from multiprocessing import spawn
from typing import Any, Iterator, Tuple, Union

from rueda import launch, plans, run_answers, run_elastic, session, watchers
from rueda._native import ffi, lib
from rueda.handles import Handle, enqueue
from rueda.operations import BROADCAST, make_options


def _number_of(name: str) -> int:
    """This rank's RANK or SIZE from the environment, which hvdrun sets, or under hvdrun --mpi Open MPI."""
    return int(os.environ.get(f"RUEDA_{name}") or os.environ[f"OMPI_COMM_WORLD_{name}"])


def _copy_of_rank_0(buffer: Any) -> None:
    here, memory = session.current(), ffi.from_buffer(buffer, require_writable=True)
    address = int(ffi.cast("uintptr_t", memory))
    arguments = here.pointer, ffi.NULL, make_options(BROADCAST, 0), (address, lib.RUEDA_U8, 1), [len(buffer)], address
    enqueue(Handle, here, lib.rueda_py_start, arguments, memory).wait()


@contextlib.contextmanager
def _encrypted() -> Iterator[None]:
    """Makes sessions that begin meanwhile send their data over TLS, whatever the function's own session will do: a machine
    that changed the call on its way would run code in every rank."""
    told = {"RUEDA_TLS": "all", "RUEDA_CPU_OPERATIONS": "tcp"}  # MPI would carry data in the clear
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _receive() -> Union[bytes, bytearray]:
    """Returns the call on every rank."""
    if _number_of("SIZE") == 1:
        return sys.stdin.buffer.read()
    with _encrypted():
        session.join()  # before reading, which may take longer than ranks wait for each other here
    try:
        call = sys.stdin.buffer.read() if session.rank() == 0 else b""
        length = bytearray(len(call).to_bytes(8, "little"))
        _copy_of_rank_0(length)
        body = bytearray(call or int.from_bytes(length, "little"))
        _copy_of_rank_0(body)
    finally:
        session.shutdown()
    return body


def _take_call() -> bytes:
    """The call from this worker's environment; empty if the job is not elastic."""
    pieces = []
    while (piece := os.environ.pop(f"{run_elastic.CALL}{len(pieces)}", None)) is not None:
        pieces.append(piece)
    return base64.b85decode("".join(pieces))


class _Worker(watchers.Watcher):
    """A worker of an elastic job. Its answers begin with the plan and the rank that it has, or had before it left."""

    def __init__(self, answer: run_answers.Answer):
        self._answer, self._place = answer, b"0 0\n"
        session.watch(self)

    def begun(self, session: Any) -> None:
        self._place = f"{plans.membership().plan} {session.rank}\n".encode()

    def say(self, kind: str, body: bytes) -> None:
        """As Answer.say(). Says nothing of a worker that elastic.run ends because the job goes on without it."""
        left = sys.exc_info()[1]
        if not (isinstance(left, SystemExit) and not left.code and session.current_or_none() is None):
            self._answer.say(kind, self._place + body)


def _read_call(call: Union[bytes, bytearray]) -> Tuple[Any, bool]:
    """The call, and whether its result is pickled by value, too."""
    file = io.BytesIO(call)
    process, by_value = pickle.load(file), pickle.load(file)
    launch.importing_rank = _number_of("RANK")
    try:
        spawn.prepare(process)
    finally:
        launch.importing_rank = None
    return pickle.load(file), by_value


def _print_what_is_held() -> None:
    """Flushes sys.stdout: text that the function has left there must come before the answer, not within it."""
    try:
        sys.stdout.flush()
    except (AttributeError, OSError, ValueError):  # the function has closed or replaced it
        pass


def main() -> None:
    """Receives the call, runs it, and writes its result or failure. Exits with a code other than 0 after a failure."""
    mark, call = os.environ.pop(run_answers.MARK_VARIABLE), _take_call()
    number = int(os.environ["RUEDA_WORKER_ID"]) if call else _number_of("RANK")
    answer = run_answers.Answer(mark, number)
    say = _Worker(answer).say if call else answer.say
    try:
        (func, args, kwargs), by_value = _read_call(call or _receive())
        module = launch.pickler()[0] if by_value else pickle
        result = module.dumps(func(*args, **kwargs))
    except launch.CalledAgainError as error:
        say("failure", str(error).encode())
        sys.exit(1)  # the caller raises the sentence
    except BaseException:
        _print_what_is_held()
        say("failure", traceback.format_exc().encode(errors="backslashreplace"))
        raise
    _print_what_is_held()
    say("result", result)


if __name__ == "__main__":
    main()
