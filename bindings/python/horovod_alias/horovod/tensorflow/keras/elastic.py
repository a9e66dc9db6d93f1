"""Elastic training under the module name of Horovod."""

from rueda.tensorflow.keras.elastic import *  # noqa: F403
