"""run() calls a function on ranks and returns what they return."""

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


def test_elastic_arguments_are_refused():
    with pytest.raises(NotImplementedError, match="elastic"):
        rueda.run(print, num_proc=1, min_num_proc=1)
