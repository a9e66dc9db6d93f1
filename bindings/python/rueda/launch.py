"""run(): a function on ranks that are started for it.

hvdrun's standard input is the call, three pickles: what a rank is to know of the caller's process before the others, whether
functions and classes of the main script travel by value, and the call. What ranks answer is among what they print
(rueda/run_answers.py). So it is with ranks of this host alone, too, as a batch system may say other hosts where the caller
names none.
"""

import glob
import io
import os
import pickle
import secrets
import subprocess
import sys
import warnings
from multiprocessing import spawn
from typing import IO, Any, Callable, Dict, List, Optional, Sequence, Tuple

from rueda import run_answers
from rueda.arguments import whole_number
from rueda.programs import path_of

_ELASTIC = ("min_num_proc", "max_num_proc", "slots", "reset_limit", "cooldown_range", "host_discovery_script", "min_np", "max_np")
_MOST_RANKS = 65536  # hvdrun's limit
_READ_BYTES = 1 << 16  # what a pipe holds

importing_rank: Optional[int] = None  # which of run()'s ranks this process is while it imports the caller's main script


class CalledAgainError(RuntimeError):
    """A rank that imports the main script has come to its run() once more."""


def run(func: Callable[..., Any], args: Sequence[Any] = (), kwargs: Optional[Dict[str, Any]] = None, num_proc: int = 1,
        min_num_proc: Any = None, max_num_proc: Any = None, slots: Any = None, reset_limit: Any = None,
        cooldown_range: Any = None, hosts: Optional[str] = None, hostfile: Optional[str] = None,
        host_discovery_script: Any = None, start_timeout: Optional[int] = None, ssh_port: Optional[int] = None,
        ssh_identity_file: Optional[str] = None, disable_cache: Any = None, output_filename: Optional[str] = None,
        verbose: Any = None, use_gloo: Any = None, use_mpi: Any = None, mpi_args: Optional[str] = None,
        network_interface: Optional[str] = None, network_interfaces: Any = None, executable: Optional[str] = None,
        np: Optional[int] = None, min_np: Any = None, max_np: Any = None) -> List[Any]:
    """Starts `num_proc` ranks with hvdrun, calls func(*args, **kwargs) on each and returns what they return, in rank order.

    The function, its arguments and results are pickled. They travel between this process and its ranks alone: by hvdrun's pipes
    and its ssh to other hosts, and from rank 0 to the others by a broadcast in a session that ends before the function begins.
    Other hosts need what hvdrun needs there: this Python with Rueda, the function's module and the working folder, at the same
    paths. With cloudpickle, which the ranks need as well then, they may be of the main script, which the ranks do not run.
    Without it each rank imports the main script first: what the script does stands behind `if __name__ == "__main__":`, and
    lambdas and functions in functions cannot be pickled.

    hosts, hostfile, start_timeout, output_filename, verbose, network_interfaces (or network_interface; text, or a list of it),
    ssh_port, ssh_identity_file and mpi_args are hvdrun's flags. executable: the Python of the ranks, this one if None. np: an
    older name of num_proc. disable_cache and use_gloo are accepted and without meaning.

    What ranks print on stdout comes to sys.stdout by whole lines, what they print on stderr to descriptor 2.
    The ranks go when the caller goes, also if it is killed, and when an exception ends the call.

    RuntimeError: a rank failed; with its traceback. A rank ended before it returned, as by sys.exit(0). A rank's import of the
    main script came to run(). NotImplementedError: min_num_proc and the other arguments of elastic jobs. ValueError: num_proc is
    no whole number from 1 to 65536, or np says something else.
    """
    del disable_cache, use_gloo
    if importing_rank is not None:
        raise CalledAgainError(
            f"run(): rank {importing_rank} imports the main script for the function that it is to call, and the script "
            "calls run() again: put what it does behind `if __name__ == \"__main__\":`, or install cloudpickle, with which ranks "
            "do not run it")  # fmt: skip
    if np is not None:
        warnings.warn("np= is deprecated, use num_proc=", DeprecationWarning, stacklevel=2)
        if num_proc not in (1, np):
            raise ValueError(f"num_proc={num_proc} and np={np}: they are two names of one number")
        num_proc = np
    num_proc = whole_number("num_proc", num_proc, 1, _MOST_RANKS)
    elastic = (min_num_proc, max_num_proc, slots, reset_limit, cooldown_range, host_discovery_script, min_np, max_np)
    for name, value in zip(_ELASTIC, elastic):
        if value is not None:
            raise NotImplementedError(f"run({name}=...): Rueda has no elastic training yet")
    interfaces = network_interfaces or network_interface
    if isinstance(interfaces, (list, tuple)):
        interfaces = ",".join(interfaces)
    flags = {"-H": hosts, "--hostfile": hostfile, "--start-timeout": start_timeout, "--ssh-port": ssh_port,
             "--ssh-identity-file": ssh_identity_file, "--output-filename": output_filename,
             "--network-interfaces": interfaces, "--mpi-args": mpi_args}  # fmt: skip
    command = [path_of("hvdrun"), "-np", str(num_proc)]
    command += [word for flag, value in flags.items() if value is not None for word in (flag, str(value))]
    command += ["--verbose"] * bool(verbose) + ["--mpi"] * bool(use_mpi)
    command += [executable or sys.executable, "-m", "rueda.run_rank"]
    mark = secrets.token_hex(16)
    answers = run_answers.Answers(mark, _Printer().write, bool(use_mpi))
    call = _pickled((func, tuple(args), dict(kwargs or {})))
    try:
        code = _run_guarded(command, call, mark, answers)
    finally:
        if output_filename is not None:
            for path in glob.glob(os.path.join(glob.escape(str(output_filename)), "rank.*", "stdout")):
                run_answers.remove_answers(path, mark, bool(use_mpi))
    return _results(code, answers, num_proc)


class _Printer:
    """Passes on what ranks print. To sys.stdout, which is not descriptor 1 in a notebook or a test."""

    def __init__(self) -> None:
        self._stream = sys.stdout  # None: this process has none

    def write(self, lines: bytes) -> None:
        """Where they cannot be printed it says so, once, and the job goes on, as hvdrun does it."""
        stream = self._stream
        if stream is None:
            return
        flush = getattr(stream, "flush", lambda: None)
        try:
            flush()  # what the caller has printed before
            if isinstance(stream, io.TextIOWrapper):
                stream.buffer.write(lines)
            else:
                stream.write(lines.decode(errors="replace"))
            flush()
        except (OSError, ValueError) as error:
            self._stream = None
            print(f"run(): the ranks' output is being lost: {error}; the job goes on", file=sys.stderr)


def _run_guarded(command: List[str], call: IO[bytes], mark: str, answers: run_answers.Answers) -> int:
    """The exit code of the command, which ends with this process."""
    guard = os.path.join(os.path.dirname(__file__), "run_guard.py")
    environment = dict(os.environ, **{run_answers.MARK_VARIABLE: mark})
    words = [sys.executable, "-I", guard, str(os.getpid()), *command]
    with call, subprocess.Popen(words, stdin=call, stdout=subprocess.PIPE, env=environment, bufsize=0) as job:
        try:
            _drain(job, answers)
        except BaseException:
            job.terminate()
            _drain(job, answers)  # else hvdrun would wait for somebody to read what ranks say as they end
            raise
    return job.returncode if job.returncode >= 0 else 128 - job.returncode


def _drain(job: "subprocess.Popen[bytes]", answers: run_answers.Answers) -> None:
    assert job.stdout is not None
    while data := job.stdout.read(_READ_BYTES):
        answers.feed(data)
    answers.end()


def pickler() -> Tuple[Any, bool]:
    """What pickles calls and results here, and whether it does so by value where a function or class is of the main script."""
    try:
        import cloudpickle
    except ImportError:
        return pickle, False
    return cloudpickle, True


def _pickled(call: Any) -> IO[bytes]:
    """A file without a name that holds the call and is to be read from its start."""
    module, by_value = pickler()
    process = spawn.get_preparation_data("rueda-rank")  # what a spawned process needs to find its functions
    process.pop("authkey", None)  # this process's own
    if by_value:
        process.pop("init_main_from_name", None)
        process.pop("init_main_from_path", None)
    file = open(os.memfd_create("rueda-call"), "w+b")
    try:
        pickle.dump(process, file)
        pickle.dump(by_value, file)
        module.dump(call, file)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _results(code: int, answers: run_answers.Answers, num_proc: int) -> List[Any]:
    missing = [rank for rank in range(num_proc) if rank not in answers.results]
    if code != 0:
        first = next(iter(answers.failures.values()), "")  # what the others fail of comes later
        raise RuntimeError(f"run(): hvdrun ended with code {code}" + (":\n" + first if first else ""))
    if missing:
        why = answers.failures.get(missing[0], "")
        raise RuntimeError(f"run(): rank {missing[0]} ended before it returned" + (":\n" + why if why else ""))
    return [pickle.loads(answers.results.pop(rank)) for rank in range(num_proc)]
