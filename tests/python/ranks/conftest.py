"""Every rank of a job runs these tests side by side: hvdrun -np N python -m pytest -x tests/python/ranks."""

import pytest
import torch

import rueda.torch as hvd

torch.set_num_threads(1)  # ranks share the cores


@pytest.fixture(scope="session", autouse=True)
def job():
    hvd.init()
    yield
    hvd.barrier()
    hvd.shutdown()


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(7)
