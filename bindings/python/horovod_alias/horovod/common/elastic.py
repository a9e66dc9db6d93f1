"""Elastic training under the module name of Horovod. Rueda does not have it: every use raises NotImplementedError."""

from rueda.torch.elastic import _refuse
from rueda.torch.elastic import run as run_fn  # noqa: F401


class State:
    """Raises NotImplementedError when it is constructed."""

    def __init__(self, *_, **__):
        raise _refuse(f"elastic.{type(self).__name__}")


class ObjectState(State):
    """Raises NotImplementedError when it is constructed."""
