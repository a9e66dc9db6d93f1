"""Horovod's place of elastic training, which Rueda does not have: each use says so."""

from rueda.torch.elastic import *  # noqa: F403
