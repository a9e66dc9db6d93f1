"""The callbacks under the module name of Horovod."""

from rueda.tensorflow.keras.callbacks import *  # noqa: F403
