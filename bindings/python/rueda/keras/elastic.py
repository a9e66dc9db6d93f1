"""The names of elastic training, which Rueda does not have. Every use raises NotImplementedError."""

from typing import Any


def _refuse(what: str) -> NotImplementedError:
    return NotImplementedError(f"{what}: Rueda has no elastic training yet; a job keeps the ranks it was started with")


def run(func: Any) -> Any:
    """Raises NotImplementedError."""
    raise _refuse("elastic.run")


class KerasState:
    """Raises NotImplementedError when it is constructed."""

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any):
        raise _refuse("elastic.KerasState")


class CommitStateCallback:
    """Raises NotImplementedError when it is constructed."""

    def __init__(self, state: Any, batches_per_commit: int = 1):
        raise _refuse("elastic.CommitStateCallback")


class UpdateBatchStateCallback:
    """Raises NotImplementedError when it is constructed."""

    def __init__(self, state: Any):
        raise _refuse("elastic.UpdateBatchStateCallback")


class UpdateEpochStateCallback:
    """Raises NotImplementedError when it is constructed."""

    def __init__(self, state: Any):
        raise _refuse("elastic.UpdateEpochStateCallback")
