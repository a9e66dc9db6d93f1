"""Every rank of a job runs these tests side by side: hvdrun -np N python -m pytest -x tests/python/tensorflow."""

import pytest
import tensorflow as tf

import rueda.tensorflow as hvd

tf.config.threading.set_inter_op_parallelism_threads(2)  # ranks share the cores
tf.config.threading.set_intra_op_parallelism_threads(1)


def pytest_configure(config):
    config.addinivalue_line("markers", "short: also run by scripts/test")


@pytest.fixture(scope="session", autouse=True)
def job():
    hvd.init()
    yield
    hvd.barrier()
    hvd.shutdown()
