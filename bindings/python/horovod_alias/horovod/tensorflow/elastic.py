"""Elastic training under the module name of Horovod."""

from rueda.tensorflow.elastic import *  # noqa: F403
