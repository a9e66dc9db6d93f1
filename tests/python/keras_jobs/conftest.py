"""These tests start jobs of their own, in an environment with Keras, JAX and PyTorch."""

import importlib.util
import pathlib

_path = pathlib.Path(__file__).parents[1] / "jobs" / "conftest.py"
_spec = importlib.util.spec_from_file_location("jobs_conftest", _path)
_jobs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_jobs)
run_script = _jobs.run_script
