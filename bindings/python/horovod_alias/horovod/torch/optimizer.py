"""DistributedOptimizer() under the module name of Horovod."""

from rueda.torch.optimizer import *  # noqa: F403
from rueda.torch.optimizer import _Distributed as _DistributedOptimizer  # noqa: F401
