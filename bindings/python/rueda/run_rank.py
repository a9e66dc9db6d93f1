"""A rank that run() has started: calls the function that rank 0 finds in its standard input. Usage: python -m rueda.run_rank

All that ranks of other hosts share with the caller is what hvdrun forwards, over ssh: standard input, to rank 0, and what ranks
print. So rank 0 hands the call to the others, in a session of its own that ends before the function begins.
"""

import io
import os
import pickle
import sys
import traceback
from multiprocessing import spawn
from typing import Any, Tuple, Union

from rueda import launch, run_answers, session
from rueda._native import ffi, lib
from rueda.handles import Handle
from rueda.operations import BROADCAST, Options


def _number_of(name: str) -> int:
    """This rank's RANK or SIZE, as hvdrun says it, or below hvdrun --mpi Open MPI."""
    return int(os.environ.get(f"RUEDA_{name}") or os.environ[f"OMPI_COMM_WORLD_{name}"])


def _copy_of_rank_0(buffer: Any) -> None:
    here, memory = session.current(), ffi.from_buffer(buffer, require_writable=True)
    address = int(ffi.cast("uintptr_t", memory))
    number = lib.rueda_py_start(here.pointer, ffi.NULL, Options(BROADCAST, 0), (address, lib.RUEDA_U8, 1), [len(buffer)], address)
    Handle(here, number, memory).wait()


def _receive() -> Union[bytes, bytearray]:
    """The call, on every rank."""
    if _number_of("SIZE") == 1:
        return sys.stdin.buffer.read()
    session.join()  # before it is read: that may take longer than ranks wait for each other here
    try:
        call = sys.stdin.buffer.read() if session.rank() == 0 else b""
        length = bytearray(len(call).to_bytes(8, "little"))
        _copy_of_rank_0(length)
        body = bytearray(call or int.from_bytes(length, "little"))
        _copy_of_rank_0(body)
    finally:
        session.shutdown()
    return body


def _read_call(call: Union[bytes, bytearray]) -> Tuple[Any, bool]:
    """The call, and whether its result is to be pickled by value, too."""
    file = io.BytesIO(call)
    process, by_value = pickle.load(file), pickle.load(file)
    launch.importing_rank = _number_of("RANK")
    try:
        spawn.prepare(process)
    finally:
        launch.importing_rank = None
    return pickle.load(file), by_value


def _print_what_is_held() -> None:
    """What the function has left in sys.stdout is its own, and comes before the answer, not into it."""
    try:
        sys.stdout.flush()
    except (AttributeError, OSError, ValueError):  # it has closed it, or put something else there
        pass


def main() -> None:
    answer = run_answers.Answer(os.environ.pop(run_answers.MARK_VARIABLE), _number_of("RANK"))
    try:
        (func, args, kwargs), by_value = _read_call(_receive())
        module = launch.pickler()[0] if by_value else pickle
        result = module.dumps(func(*args, **kwargs))
    except launch.CalledAgainError as error:
        answer.say("failure", str(error).encode())
        sys.exit(1)  # the sentence is the caller's to raise
    except BaseException:
        _print_what_is_held()
        answer.say("failure", traceback.format_exc().encode(errors="backslashreplace"))
        raise
    _print_what_is_held()
    answer.say("result", result)


if __name__ == "__main__":
    main()
