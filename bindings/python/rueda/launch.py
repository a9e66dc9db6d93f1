"""run(): a function on ranks that are started for it."""

import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from multiprocessing import spawn
from typing import Any, Callable, Dict, List, Optional, Sequence

from rueda.arguments import whole_number
from rueda.programs import path_of

_ELASTIC = ("min_num_proc", "max_num_proc", "slots", "reset_limit", "cooldown_range", "host_discovery_script", "min_np", "max_np")
_MOST_RANKS = 65536  # hvdrun's limit


def run(func: Callable[..., Any], args: Sequence[Any] = (), kwargs: Optional[Dict[str, Any]] = None, num_proc: int = 1,
        min_num_proc: Any = None, max_num_proc: Any = None, slots: Any = None, reset_limit: Any = None,
        cooldown_range: Any = None, hosts: Optional[str] = None, hostfile: Optional[str] = None,
        host_discovery_script: Any = None, start_timeout: Optional[int] = None, ssh_port: Optional[int] = None, ssh_identity_file: Optional[str] = None,
        disable_cache: Any = None, output_filename: Optional[str] = None, verbose: Any = None, use_gloo: Any = None,
        use_mpi: Any = None, mpi_args: Optional[str] = None, network_interface: Optional[str] = None,
        network_interfaces: Any = None, executable: Optional[str] = None, np: Optional[int] = None, min_np: Any = None,
        max_np: Any = None) -> List[Any]:
    """Starts `num_proc` ranks with hvdrun, calls func(*args, **kwargs) on each and returns what they return, in rank order.

    The function, its arguments and results are pickled (with cloudpickle where it is installed) and travel through a folder
    that only this user can read, never over a network. A function of the main script needs the script's work to stand behind
    `if __name__ == "__main__":`, unless cloudpickle is there.

    hosts, hostfile, start_timeout, output_filename, verbose, network_interfaces (or network_interface; text, or a list of it),
    ssh_port, ssh_identity_file and mpi_args are hvdrun's flags. executable: the Python of the ranks, this one if None. np: an
    older name of num_proc. disable_cache and use_gloo are accepted and without meaning.

    The ranks and the folder go when the caller goes, also if it is killed, and when an exception ends the call.

    RuntimeError: a rank failed; with its traceback. NotImplementedError: min_num_proc and the other arguments of elastic jobs.
    ValueError: num_proc is no whole number from 1 to 65536, or np says something else.
    """
    del disable_cache, use_gloo
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


def _write_call(path: str, call: Any) -> None:
    try:
        import cloudpickle as pickler
    except ImportError:
        pickler = pickle
    main_script = spawn.get_preparation_data("rueda-rank")  # what a spawned process needs to find its functions
    main_script.pop("authkey", None)  # this process's own
    with open(path, "wb") as file:
        pickle.dump(main_script, file)
        pickler.dump(call, file)


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
