"""These tests start jobs of their own, in an environment with JAX."""

import importlib.util
import pathlib

import pytest

_path = pathlib.Path(__file__).parents[2] / "jobs" / "conftest.py"
_spec = importlib.util.spec_from_file_location("jobs_conftest", _path)
_jobs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_jobs)
run_script = _jobs.run_script

JAX = "import jax, jax.numpy as jnp, numpy as np, os, sys\nimport rueda.jax as hvd\n\n"


def pytest_configure(config):
    config.addinivalue_line("markers", "short: also run by scripts/test")


@pytest.fixture
def run_jax(run_script):
    """run_script for scripts that use JAX on the CPU."""

    def run(text, *flags, environment=None, **more):
        surroundings = {"JAX_PLATFORMS": "cpu", **(environment or {})}
        return run_script(text, *flags, environment=surroundings, imports=JAX, **more)

    return run
