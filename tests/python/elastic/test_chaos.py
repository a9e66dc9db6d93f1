"""Short runs of scripts/chaos --elastic, in which jobs lose and get workers, hosts and hvdrun itself and keep the right state,
and of scripts/soak --elastic, in which they are reset and must not grow."""

import json
import pathlib
import subprocess
import sys

import pytest
from conftest import _jobs

PROGRAMS = pathlib.Path(__file__).parents[2] / "chaos"


def run(folder, program, *words):
    """What the program writes as JSON, once nothing has gone wrong."""
    told = folder / "told.json"
    command = [sys.executable, "-B", str(PROGRAMS / program), "--bin", str(pathlib.Path(_jobs.HVDRUN).parent), "--json", str(told), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(told.read_text())


def strike(folder, *words):
    """The rows of scenarios."""
    return run(folder, "elastic_chaos.py", *words)["scenarios"]


def test_jobs_go_on_with_the_right_state_whatever_strikes_them(tmp_path):
    names = ["kill-while-joining", "kill-host", "join-told", "leave", "kill-hvdrun"]
    rows = strike(tmp_path, "--scenarios", ",".join(names), "--rounds", str(len(names)))
    assert [row["rounds"] for row in rows.values()] == [1] * len(names) and list(rows) == names
    assert all(row["recovered"]["max_ms"] > 0 for row in rows.values()) and rows["leave"]["ended"]["max_ms"] > 0, rows


def test_a_worker_that_hangs_before_it_joins_is_ended_whatever_rank_it_would_have(tmp_path):
    rows = strike(tmp_path, "--scenarios", "hang-last", "--rounds", "1")
    assert 2000 <= rows["hang-last"]["recovered"]["max_ms"]


def test_fifteen_resets_leave_descriptors_threads_and_memory_as_they_were(tmp_path):
    table = run(tmp_path, "elastic_soak.py", "--resets", "15", "--ranks", "3", "--pss", "2048")["table"]
    assert [row["process"] for row in table] == ["hvdrun", "agent", "worker 0", "worker 1", "worker 2"]
    assert all(row["measurements"] == 16 for row in table[2:]), table


@pytest.mark.long
def test_every_scenario_ten_times(tmp_path):
    strike(tmp_path, "--rounds", "280")
