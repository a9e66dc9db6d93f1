"""The example trains, and all ranks end with the same parameters; the comparison compares."""

import json
import os
import pathlib
import re
import subprocess
import sys

EXAMPLE = pathlib.Path(__file__).parents[4] / "examples" / "jax" / "train_digits.py"


def test_digits_are_learnt(run_jax):
    job = run_jax(f"import runpy\nsys.argv[1:] = ['--accumulate', '2']\nrunpy.run_path({str(EXAMPLE)!r}, run_name='__main__')\n")
    assert job.code == 0, job.err
    found = [re.search(r"accuracy (\S+), parameters (\S+)$", job.lines(rank)[-1]).groups() for rank in range(2)]
    assert found[0] == found[1] and float(found[0][0]) > 0.9, job.out


def test_the_comparison_with_jax_s_own_processes_runs(tmp_path):
    program = pathlib.Path(__file__).parents[4] / "benchmarks" / "framework_compare"
    command = [sys.executable, str(program), "jax", "--shrink", "32", "--rounds", "1", "--seconds", "0.01", "--json", "found.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path, env=dict(os.environ, JAX_PLATFORMS="cpu"))
    assert done.returncode == 0, done.stdout + done.stderr
    table = json.loads((tmp_path / "found.json").read_text())["table"]
    assert [rows[-1]["peer"] for rows in table.values()] == ["jax.distributed with Gloo"] * 2
    assert all(row["ms"] > 0 for rows in table.values() for row in rows)
