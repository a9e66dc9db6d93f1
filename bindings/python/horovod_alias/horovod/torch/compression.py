"""Horovod's place of Compression."""

from rueda.torch.compression import *  # noqa: F403
