"""Every rank of a job runs these tests side by side, in an environment with JAX: hvdrun -np N python -m pytest -x
tests/python/jax/ranks."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import pytest

import rueda.jax as hvd


def pytest_configure(config):
    config.addinivalue_line("markers", "short: also run by scripts/test")


def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.short)


@pytest.fixture(scope="session", autouse=True)
def job():
    hvd.init()
    yield
    hvd.barrier()
    hvd.shutdown()
