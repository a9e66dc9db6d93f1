"""rueda.torch under the name of horovod.torch."""

from rueda.torch import *  # noqa: F403
