"""Elastic jobs with model.fit() on TensorFlow, by each name of the package."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from keras_elastic import FLAGS, require_resumed, script  # noqa: E402

PACKAGES = {"rueda.tensorflow.keras": "tf.keras", "horovod.tensorflow.keras": "tf.keras", "rueda.keras": "__import__('keras')",
            "horovod.keras": "__import__('keras')"}  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES)
def test_a_worker_killed_in_the_middle_of_an_epoch_is_survived_at_the_last_commit(run_script, package):
    require_resumed(run_script(script(package, PACKAGES[package]), *FLAGS, ranks=3, environment={"KERAS_BACKEND": "tensorflow"}))
