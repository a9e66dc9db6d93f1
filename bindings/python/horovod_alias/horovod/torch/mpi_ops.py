"""Horovod's place of the collectives."""

from horovod.common.util import check_installed_version, gpu_available, num_rank_is_power_2  # noqa: F401
from rueda.torch import *  # noqa: F403
