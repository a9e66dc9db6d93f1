"""The names of elastic training, which Rueda does not have. Every use raises NotImplementedError."""

from rueda.keras.elastic import (  # noqa: F401
    CommitStateCallback,
    KerasState,
    UpdateBatchStateCallback,
    UpdateEpochStateCallback,
    run,
)
