"""A short run of scripts/chaos --elastic: jobs lose and get workers, hosts and hvdrun itself, and keep the right state."""

import json
import pathlib
import subprocess
import sys

import pytest
from conftest import _jobs

CHAOS = pathlib.Path(__file__).parents[2] / "chaos" / "elastic_chaos.py"


def strike(folder, *words):
    """The rows of scenarios, once nothing has gone wrong."""
    command = [sys.executable, "-B", str(CHAOS), "--bin", str(pathlib.Path(_jobs.HVDRUN).parent), "--json", str(folder / "rows.json"), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "rows.json").read_text())["scenarios"]


def test_jobs_go_on_with_the_right_state_whatever_strikes_them(tmp_path):
    names = ["kill-rank-0", "kill-while-joining", "kill-host", "join", "leave", "kill-hvdrun"]
    rows = strike(tmp_path, "--scenarios", ",".join(names), "--rounds", "6")
    assert [row["rounds"] for row in rows.values()] == [1] * 6 and list(rows) == names
    assert all(row["recovered"]["max_ms"] > 0 for row in rows.values()), rows


def test_a_worker_that_hangs_before_it_joins_is_ended_whatever_rank_it_would_have(tmp_path):
    rows = strike(tmp_path, "--scenarios", "hang-last", "--rounds", "1")
    assert 2000 <= rows["hang-last"]["recovered"]["max_ms"]


@pytest.mark.long
def test_every_scenario_ten_times(tmp_path):
    strike(tmp_path, "--rounds", "130")
