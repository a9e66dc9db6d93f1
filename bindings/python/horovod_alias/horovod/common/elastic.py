"""Horovod's place of elastic training, which Rueda does not have: each use says so."""

from rueda.torch.elastic import _refuse
from rueda.torch.elastic import run as run_fn  # noqa: F401


class State:
    """NotImplementedError when made."""

    def __init__(self, *_, **__):
        raise _refuse(f"elastic.{type(self).__name__}")


class ObjectState(State):
    """NotImplementedError when made."""
