"""The example trains, and all ranks end with the same parameters."""

import pathlib
import re

EXAMPLE = pathlib.Path(__file__).parents[4] / "examples" / "jax" / "train_digits.py"


def test_digits_are_learnt(run_jax):
    job = run_jax(f"import runpy\nsys.argv[1:] = ['--accumulate', '2']\nrunpy.run_path({str(EXAMPLE)!r}, run_name='__main__')\n")
    assert job.code == 0, job.err
    found = [re.search(r"accuracy (\S+), parameters (\S+)$", job.lines(rank)[-1]).groups() for rank in range(2)]
    assert found[0] == found[1] and float(found[0][0]) > 0.9, job.out
