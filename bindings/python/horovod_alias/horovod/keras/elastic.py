"""Elastic training under the module name of Horovod."""

from rueda.keras.elastic import *  # noqa: F403
