"""Horovod's place of DistributedOptimizer()."""

from rueda.torch.optimizer import *  # noqa: F403
