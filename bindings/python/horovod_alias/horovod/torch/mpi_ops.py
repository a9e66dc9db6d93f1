"""Horovod's place of the collectives."""

from rueda.torch import *  # noqa: F403
