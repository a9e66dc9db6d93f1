"""Horovod's place of DistributedOptimizer()."""

from rueda.torch.optimizer import *  # noqa: F403
from rueda.torch.optimizer import _Distributed as _DistributedOptimizer  # noqa: F401
