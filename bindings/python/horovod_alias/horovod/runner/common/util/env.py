"""What the environment of a process says about the job."""

import os

_LAUNCHERS = (
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("RUEDA_RANK", "RUEDA_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("RANK", "WORLD_SIZE"),
)


def get_env_rank_and_size():
    """The rank and the number of ranks that a launcher has put into the environment; (0, 1) without a launcher."""
    for rank, size in _LAUNCHERS:
        if os.environ.get(rank, "").isdigit() and os.environ.get(size, "").isdigit():
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1
