"""Elastic training with PyTorch under the module name of Horovod."""

from rueda.torch.elastic import *  # noqa: F403
