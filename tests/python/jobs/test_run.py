"""run() calls a function on ranks and returns what they return."""

import os
import signal
import subprocess
import sys

import pytest

import rueda


def test_results_come_in_rank_order():
    assert rueda.run(divmod, args=(7, 2), num_proc=3) == [(3, 1)] * 3


SCRIPT = """
import sys
import numpy
import rueda
import rueda.numpy as hvd

def work(base, extra=0):
    hvd.init()
    total = float(hvd.allreduce(numpy.array([1.0]), op=hvd.Sum)[0])
    if base < 0 and hvd.rank() == 1:
        raise ValueError("rank 1 does not like %d" % base)
    hvd.barrier()
    return base + extra + hvd.rank(), total

if __name__ == "__main__":
    try:
        print("results", rueda.run(work, (int(sys.argv[1]),), {"extra": 5}, num_proc=2))
    except RuntimeError as error:
        print("failed", "ValueError: rank 1 does not like -1" in str(error))
"""


@pytest.mark.parametrize("base, prints", [(10, "results [(15, 2.0), (16, 2.0)]"), (-1, "failed True")])
def test_a_function_of_the_main_script_runs_and_a_failing_rank_s_traceback_is_raised(tmp_path, base, prints):
    (tmp_path / "main.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "main.py", str(base)], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == prints, done.stderr


UNGUARDED = """
import rueda

def work(base):
    import rueda
    rueda.init()
    return base + rueda.rank(), lambda: base  # functions, too, by value

print("started")
print("results", [(number, function()) for number, function in rueda.run(work, (10,), num_proc=2)])
"""

# As much of cloudpickle as UNGUARDED needs.
BY_VALUE = """
import io, marshal, pickle, types

def make(code, cells):
    space = {"__builtins__": __builtins__, "__name__": "__main__"}
    return types.FunctionType(marshal.loads(code), space, "f", None, tuple(map(types.CellType, cells)))

class Pickler(pickle.Pickler):
    def reducer_override(self, value):
        if not isinstance(value, types.FunctionType) or value.__module__ != "__main__":
            return NotImplemented
        return make, (marshal.dumps(value.__code__), [cell.cell_contents for cell in value.__closure__ or ()])

def dump(value, file):
    Pickler(file).dump(value)

def dumps(value):
    file = io.BytesIO()
    dump(value, file)
    return file.getvalue()
"""


def run_unguarded(folder, cloudpickle):
    """What UNGUARDED does where the text is the module cloudpickle; None: the one that is installed."""
    (folder / "main.py").write_text(UNGUARDED)
    if cloudpickle is not None:
        (folder / "cloudpickle.py").write_text(cloudpickle)
    return subprocess.run([sys.executable, "main.py"], capture_output=True, text=True, cwd=folder, timeout=120)


@pytest.mark.parametrize("cloudpickle", [BY_VALUE, None], ids=["a stand-in", "cloudpickle"])
def test_with_cloudpickle_ranks_do_not_run_the_main_script_and_send_functions_back(tmp_path, cloudpickle):
    if cloudpickle is None:
        pytest.importorskip("cloudpickle")
    done = run_unguarded(tmp_path, cloudpickle)
    assert done.stdout == "started\nresults [(10, 10), (11, 10)]\n", done.stdout + done.stderr


def test_without_cloudpickle_a_rank_whose_import_calls_run_again_says_what_to_do(tmp_path):
    done = run_unguarded(tmp_path, "raise ImportError")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("run(): rank ") and "`if __name__ == \"__main__\":`" in last and "cloudpickle" in last, done.stderr
    assert done.stderr.count("calls run() again") == 1 and done.returncode == 1, done.stderr


@pytest.mark.parametrize("argument", ["min_num_proc", "max_num_proc", "min_np", "max_np", "slots", "host_discovery_script"])
def test_elastic_arguments_are_refused(argument):
    with pytest.raises(NotImplementedError, match=f"{argument}=.*elastic"):
        rueda.run(print, num_proc=1, **{argument: 1})


def test_older_names_of_arguments_are_taken():
    with pytest.deprecated_call():
        assert rueda.run(divmod, (7, 2), np=2, network_interfaces=["lo", "eth*"]) == [(3, 1)] * 2
    with pytest.deprecated_call(), pytest.raises(ValueError, match="num_proc=2 and np=3"):
        rueda.run(divmod, (7, 2), num_proc=2, np=3)


@pytest.mark.parametrize("count", [0, -1, 65537, True, 2.0, "2", None])
def test_a_number_of_ranks_that_cannot_be_is_refused_before_anything_starts(count):
    with pytest.raises(ValueError, match="num_proc is .*from 1 to 65536"):
        rueda.run(print, num_proc=count)


WAITING = """
import signal
import sys
import threading
import rueda

def work():
    print("here", flush=True)
    threading.Event().wait()

def interrupted(*_):
    raise KeyboardInterrupt

if __name__ == "__main__":
    if sys.argv[1] == "handler":
        signal.signal(signal.SIGTERM, interrupted)
    rueda.run(work, num_proc=2)
"""


@pytest.mark.parametrize("how, number", [("no", signal.SIGTERM), ("no", signal.SIGKILL), ("handler", signal.SIGTERM)])
def test_the_ranks_and_the_folder_go_with_the_caller(tmp_path, how, number):
    (tmp_path / "main.py").write_text(WAITING)
    (tmp_path / "temporary").mkdir()
    environment = dict(os.environ, TMPDIR=str(tmp_path / "temporary"))
    caller = subprocess.Popen([sys.executable, "main.py", how], stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment)
    with caller:
        assert "here" in caller.stdout.readline() and "here" in caller.stdout.readline()
        assert os.listdir(tmp_path / "temporary")
        caller.send_signal(number)
        caller.stdout.read()  # to its end: nobody is left who could write
    assert os.listdir(tmp_path / "temporary") == []
