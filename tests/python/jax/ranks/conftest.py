"""Every rank of a job runs these tests side by side, in an environment with JAX: hvdrun -np N python -m pytest -x
tests/python/jax/ranks."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import pytest

import rueda.jax as hvd


@pytest.fixture(scope="session", autouse=True)
def job():
    hvd.init()
    yield
    hvd.barrier()
    hvd.shutdown()
