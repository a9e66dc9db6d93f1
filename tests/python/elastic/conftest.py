"""These tests start elastic jobs of their own, in which workers are killed."""

import importlib.util
import pathlib

_path = pathlib.Path(__file__).parents[1] / "jobs" / "conftest.py"
_spec = importlib.util.spec_from_file_location("jobs_conftest", _path)
_jobs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_jobs)
run_script, Ended, TORCH = _jobs.run_script, _jobs.Ended, _jobs.TORCH


def pytest_configure(config):
    config.addinivalue_line("markers", "long: of scripts/long-tests; scripts/test has other cases of the same")
