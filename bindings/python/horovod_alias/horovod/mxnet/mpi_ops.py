"""The collectives under the module name of Horovod."""

from horovod.common.basics import HorovodBasics
from rueda.mxnet import *  # noqa: F403

_basics = HorovodBasics()  # scripts call methods on it that are not functions of this module
