"""Horovod's place of broadcast_parameters() and the like."""

from rueda.torch.state import *  # noqa: F403
