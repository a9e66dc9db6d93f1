"""Elastic jobs with model.fit() on JAX and on PyTorch, by each name of the package."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from keras_elastic import FLAGS, require_resumed, script  # noqa: E402


@pytest.mark.parametrize("backend", ["jax", "torch"])
@pytest.mark.parametrize("package", ["rueda.keras", "horovod.keras"])
def test_a_worker_killed_in_the_middle_of_an_epoch_is_survived_at_the_last_commit(run_script, package, backend):
    environment = {"KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
    require_resumed(run_script(script(package, "__import__('keras')"), *FLAGS, ranks=3, imports="", environment=environment))
