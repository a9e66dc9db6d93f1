"""Elastic training under the module name of Horovod. Rueda does not have it: every use raises NotImplementedError."""

from rueda.tensorflow.keras.elastic import *  # noqa: F403
