"""run(): starts ranks, and calls a function on each of them.

    caller --stdin of hvdrun--> rank 0 --broadcast--> all ranks     three pickles, see below
    caller <--stdout of hvdrun-- all ranks                          answers, as lines in what ranks print (run_answers.py)

The pickles are: how to import the caller's main script, whether its functions are pickled by value, and the call. In
an elastic job they go another way (run_elastic.py).

Ranks on this host alone work in the same way, since a batch system may choose other hosts if the caller names none.
"""

import glob
import io
import os
import pickle
import secrets
import subprocess
import sys
from multiprocessing import spawn
from typing import IO, Any, Callable, Dict, List, Optional, Sequence, Tuple

from rueda import run_answers, run_elastic
from rueda.arguments import warn_user, whole_number
from rueda.programs import path_of

_MOST_RANKS = 65536  # hvdrun's limit
_READ_BYTES = 1 << 16  # what a pipe holds

importing_rank: Optional[int] = None  # the number of this rank of run() while it imports the caller's main script


class CalledAgainError(RuntimeError):
    """A rank has imported the main script, and the script has called run() again."""


def run(func: Callable[..., Any], args: Sequence[Any] = (), kwargs: Optional[Dict[str, Any]] = None, num_proc: int = 1,
        min_num_proc: Optional[int] = None, max_num_proc: Optional[int] = None, slots: Optional[int] = None,
        reset_limit: Optional[int] = None, cooldown_range: Optional[Sequence[int]] = None, hosts: Optional[str] = None,
        hostfile: Optional[str] = None, host_discovery_script: Optional[str] = None, start_timeout: Optional[int] = None,
        ssh_port: Optional[int] = None, ssh_identity_file: Optional[str] = None, disable_cache: Any = None,
        output_filename: Optional[str] = None, verbose: Any = None, use_gloo: Any = None, use_mpi: Any = None,
        mpi_args: Optional[str] = None, network_interface: Optional[str] = None, network_interfaces: Any = None,
        executable: Optional[str] = None, np: Optional[int] = None, min_np: Optional[int] = None,
        max_np: Optional[int] = None) -> List[Any]:
    """Starts `num_proc` ranks with hvdrun, calls func(*args, **kwargs) on each, and returns their results in the order
    of ranks.

    Pickles: the function, its arguments and its results are pickled. They pass through hvdrun's pipes, and its ssh to
    other hosts; rank 0 sends the call to the other ranks in a session that ends before the function begins. With
    cloudpickle, here and on the ranks, functions and classes may be defined in the main script. Without it each rank
    imports the main script first, so that must keep its own work within `if __name__ == "__main__":`; lambdas and
    nested functions cannot be pickled then.

    Other hosts need, at the same paths: this Python with Rueda, the function's module, and the working folder.

    min_num_proc or host_discovery_script makes the job elastic; its function trains within elastic.run. These two and
    max_num_proc, slots, reset_limit and cooldown_range (two numbers) are flags of hvdrun. num_proc is at least
    min_num_proc. Returns the results of the first min_num_proc (else num_proc) ranks of the last plan. The call, at most
    1 MiB, reaches the workers in their environment.

    hosts, hostfile, start_timeout, output_filename, verbose, network_interfaces (or network_interface; text or a list
    of it), ssh_port, ssh_identity_file and mpi_args are the flags of hvdrun. executable: the Python of the ranks, by
    default this one. np, min_np, max_np: older names. disable_cache and use_gloo: ignored.

    Blocks until all ranks have ended. sys.stdout gets what ranks print, in whole lines; descriptor 2 gets their stderr.
    The ranks end when this process ends, even if it is killed, and when an exception ends this call.

    Raises RuntimeError if the job failed, with the traceback of a rank (of an elastic job also hvdrun's last lines), if a
    rank ended before the function returned, as by sys.exit(0), or if the import of the main script on a rank called
    run(). Raises ValueError if an argument is out of range or contradicts another, or if the call is too large.
    """
    del disable_cache, use_gloo
    num_proc, elastic = _checked(locals())
    flags = {"-H": hosts, "--hostfile": hostfile, "--start-timeout": start_timeout, "--ssh-port": ssh_port,
             "--ssh-identity-file": ssh_identity_file, "--output-filename": output_filename,
             "--network-interfaces": network_interfaces or network_interface, "--mpi-args": mpi_args}  # fmt: skip
    command = [path_of("hvdrun"), "-np", str(num_proc), *_words_of(flags)]
    command += ["--verbose"] * bool(verbose) + ["--mpi"] * bool(use_mpi) + (elastic.words if elastic else [])
    command += [executable or sys.executable, "-m", "rueda.run_rank"]
    mark = secrets.token_hex(16)
    answers = run_answers.Answers(mark, _Printer().write, bool(use_mpi))
    call = _pickled((func, tuple(args), dict(kwargs or {})))
    try:
        code = _run_guarded(command, call, mark, answers, elastic)
    finally:
        if output_filename is not None:
            for path in glob.glob(os.path.join(glob.escape(str(output_filename)), "rank.*", "stdout")):
                run_answers.remove_answers(path, mark, bool(use_mpi))
    return elastic.results(code, answers) if elastic else _results(code, answers, num_proc)


_OLDER_NAMES = {"np": "num_proc", "min_np": "min_num_proc", "max_np": "max_num_proc"}
_ELASTIC = ("min_num_proc", "max_num_proc", "slots", "reset_limit", "cooldown_range", "host_discovery_script")


def _checked(given: Dict[str, Any]) -> Tuple[int, Optional[run_elastic.Elastic]]:
    """The number of ranks, and what else an elastic job has. given: run()'s arguments, by their names."""
    if importing_rank is not None:
        raise CalledAgainError(
            f"run(): rank {importing_rank} imports the main script for the function that it must call, and the script "
            "calls run() again; put that call within `if __name__ == \"__main__\":`, or install cloudpickle, with which ranks "
            "do not import the script")  # fmt: skip
    for older, name in _OLDER_NAMES.items():
        if given[older] is not None:
            warn_user(f"{older}= is deprecated, use {name}=", DeprecationWarning)
            if given[name] not in (1 if name == "num_proc" else None, given[older]):
                raise ValueError(f"{name}={given[name]} and {older}={given[older]} differ; give {name}= only")
            given[name] = given[older]
    num_proc = whole_number("num_proc", given["num_proc"], 1, _MOST_RANKS)
    if num_proc == 1 and given["min_num_proc"] is not None:  # num_proc was not given
        num_proc = whole_number("min_num_proc", given["min_num_proc"], 1, _MOST_RANKS)
    elastic = {name: given[name] for name in _ELASTIC if given[name] is not None}
    return num_proc, run_elastic.Elastic(num_proc, elastic, given["use_mpi"]) if elastic else None


def _words_of(flags: Dict[str, Any]) -> List[str]:
    """The flags that have a value, as words of a command line. A list becomes one word with commas."""
    words = []
    for flag, value in flags.items():
        if value is not None:
            words += [flag, ",".join(value) if isinstance(value, (list, tuple)) else str(value)]
    return words


class _Printer:
    """Writes what ranks print to sys.stdout, which in a notebook or a test is not descriptor 1."""

    def __init__(self) -> None:
        self._stream = sys.stdout  # None if this process has no standard output

    def write(self, lines: bytes) -> None:
        """Writes whole lines. If that fails it prints one message, and the job goes on, as hvdrun's would."""
        stream = self._stream
        if stream is None:
            return
        flush = getattr(stream, "flush", lambda: None)
        try:
            flush()  # text of the caller comes first
            if isinstance(stream, io.TextIOWrapper):
                stream.buffer.write(lines)
            else:
                stream.write(lines.decode(errors="replace"))
            flush()
        except (OSError, ValueError) as error:
            self._stream = None
            print(f"run(): the ranks' output is being lost: {error}; the job goes on", file=sys.stderr)


def _run_guarded(command: List[str], call: IO[bytes], mark: str, answers: run_answers.Answers,
                 elastic: Optional[run_elastic.Elastic]) -> int:
    """Runs the command to its end, and returns its exit code. The command ends when this process ends."""
    guard = os.path.join(os.path.dirname(__file__), "run_guard.py")
    environment = dict(os.environ, **{run_answers.MARK_VARIABLE: mark})
    words = [sys.executable, "-I", guard, str(os.getpid()), *command]
    with call:
        streams: Dict[str, Any] = {"stdin": call}
        if elastic is not None:
            environment.update(run_elastic.call_in_environment(call))
            streams = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment, bufsize=0, **streams) as job:
            if elastic is not None:
                elastic.follow(job.stderr)
            try:
                _drain(job, answers)
            except BaseException:
                job.terminate()
                _drain(job, answers)  # else hvdrun would block on its output while its ranks end
                raise
            finally:
                if elastic is not None:
                    elastic.followed()  # before the stream is closed
    return job.returncode if job.returncode >= 0 else 128 - job.returncode


def _drain(job: "subprocess.Popen[bytes]", answers: run_answers.Answers) -> None:
    assert job.stdout is not None
    while data := job.stdout.read(_READ_BYTES):
        answers.feed(data)
    answers.end()


def pickler() -> Tuple[Any, bool]:
    """The module that pickles calls and results, and whether it pickles functions and classes of the main script by
    value."""
    try:
        import cloudpickle
    except ImportError:
        return pickle, False
    return cloudpickle, True


def _pickled(call: Any) -> IO[bytes]:
    """A file without a name that holds the call, positioned at its start."""
    module, by_value = pickler()
    process = spawn.get_preparation_data("rueda-rank")  # how a spawned process imports the main script
    process.pop("authkey", None)  # a secret of this process
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
        first = next(iter(answers.failures.values()), "")  # the first in time; the others usually fail as a consequence
        raise RuntimeError(f"run(): hvdrun ended with code {code}" + (":\n" + first if first else ""))
    if missing:
        why = answers.failures.get(missing[0], "")
        raise RuntimeError(f"run(): rank {missing[0]} ended before it returned" + (":\n" + why if why else ""))
    return [pickle.loads(answers.results.pop(rank)) for rank in range(num_proc)]
