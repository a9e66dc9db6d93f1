"""The callbacks under the module name of Horovod."""

from rueda.keras.callbacks import *  # noqa: F403
