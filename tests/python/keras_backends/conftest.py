"""Every rank of a job runs these tests side by side, on the backend that KERAS_BACKEND names:
KERAS_BACKEND=jax hvdrun -np N python -m pytest -x tests/python/keras_backends."""

import keras
import pytest

import rueda.keras as hvd
from rueda.waits import barrier


@pytest.fixture(scope="session", autouse=True)
def job():
    if keras.backend.backend() == "torch":
        import torch

        torch.set_num_threads(1)  # ranks share the cores
    hvd.init()
    yield
    barrier()
    hvd.shutdown()
