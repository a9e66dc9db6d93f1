"""The collectives under the module name of Horovod."""

from horovod.common.basics import HorovodBasics
from horovod.common.util import check_installed_version, num_rank_is_power_2  # noqa: F401
from rueda.tensorflow import *  # noqa: F403

_basics = HorovodBasics()  # scripts call methods on it that are not functions of this module
