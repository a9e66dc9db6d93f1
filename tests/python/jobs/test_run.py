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
