"""The names of elastic training, which Rueda does not have. Every use raises NotImplementedError."""

from typing import Any


def _refuse(what: str) -> NotImplementedError:
    return NotImplementedError(f"{what}: Rueda has no elastic training yet; a job keeps the ranks it was started with")


def run(func: Any) -> Any:
    """Raises NotImplementedError."""
    raise _refuse("elastic.run")


class TensorFlowState:
    """Raises NotImplementedError when it is constructed."""

    def __init__(self, variables: Any = None, session: Any = None, **kwargs: Any):
        raise _refuse("elastic.TensorFlowState")


class TensorFlowKerasState:
    """Raises NotImplementedError when it is constructed."""

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any):
        raise _refuse("elastic.TensorFlowKerasState")
