"""run(): a function on ranks that are started for it.

FOLDER/call holds three pickles: what a rank is to know of the caller's process before the others, whether functions and classes
of the main script travel by value, and the call. Ranks answer with FOLDER/result.RANK or FOLDER/failure.RANK.
"""

import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from multiprocessing import spawn
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from rueda.arguments import whole_number
from rueda.programs import path_of

_ELASTIC = ("min_num_proc", "max_num_proc", "slots", "reset_limit", "cooldown_range", "host_discovery_script", "min_np", "max_np")
_MOST_RANKS = 65536  # hvdrun's limit

imports_main = False  # whether this process is a rank of run()'s and imports the caller's main script


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

    The function, its arguments and results are pickled and travel through a folder that only this user can read, never over a
    network. With cloudpickle, which the ranks need as well then, they may be of the main script, which the ranks do not run.
    Without it each rank imports the main script first: what the script does stands behind `if __name__ == "__main__":`, and
    lambdas and functions in functions cannot be pickled.

    hosts, hostfile, start_timeout, output_filename, verbose, network_interfaces (or network_interface; text, or a list of it),
    ssh_port, ssh_identity_file and mpi_args are hvdrun's flags. executable: the Python of the ranks, this one if None. np: an
    older name of num_proc. disable_cache and use_gloo are accepted and without meaning.

    The ranks and the folder go when the caller goes, also if it is killed, and when an exception ends the call.

    RuntimeError: a rank failed; with its traceback. A rank's import of the main script came to run(). NotImplementedError:
    min_num_proc and the other arguments of elastic jobs. ValueError: num_proc is no whole number from 1 to 65536, or np says
    something else.
    """
    del disable_cache, use_gloo
    if imports_main:
        raise CalledAgainError(
            f"run(): rank {os.environ['RUEDA_RANK']} imports the main script for the function that it is to call, and the script "
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
    with tempfile.TemporaryDirectory(prefix="rueda-run-") as folder:
        _write_call(os.path.join(folder, "call"), (func, tuple(args), dict(kwargs or {})))
        command += [executable or sys.executable, "-m", "rueda.run_rank", folder]
        code = _run_guarded(folder, command)
        if code != 0:
            raise RuntimeError(f"run(): hvdrun ended with code {code}{_failure(folder)}")
        return [_read_result(folder, rank) for rank in range(num_proc)]


def _run_guarded(folder: str, command: List[str]) -> int:
    """The exit code of the command, which ends with this process."""
    guard = os.path.join(os.path.dirname(__file__), "run_guard.py")
    job = subprocess.Popen([sys.executable, "-I", guard, str(os.getpid()), folder, *command], stdin=subprocess.DEVNULL)
    try:
        return job.wait()
    except BaseException:
        job.terminate()
        job.wait()
        raise


def pickler() -> Tuple[Any, bool]:
    """What pickles calls and results here, and whether it does so by value where a function or class is of the main script."""
    try:
        import cloudpickle
    except ImportError:
        return pickle, False
    return cloudpickle, True


def _write_call(path: str, call: Any) -> None:
    module, by_value = pickler()
    process = spawn.get_preparation_data("rueda-rank")  # what a spawned process needs to find its functions
    process.pop("authkey", None)  # this process's own
    if by_value:
        process.pop("init_main_from_name", None)
        process.pop("init_main_from_path", None)
    with open(path, "wb") as file:
        pickle.dump(process, file)
        pickle.dump(by_value, file)
        module.dump(call, file)


def _failure(folder: str) -> str:
    """The traceback of the first rank that raised, if one did."""
    failures = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("failure."))
    if not failures:
        return ""
    with open(min(failures, key=os.path.getmtime), encoding="utf-8") as file:
        return ":\n" + file.read()


def _read_result(folder: str, rank: int) -> Any:
    try:
        with open(os.path.join(folder, f"result.{rank}"), "rb") as file:
            return pickle.load(file)
    except FileNotFoundError:
        raise RuntimeError(f"run(): rank {rank} left no result here; ranks of other hosts cannot") from None
