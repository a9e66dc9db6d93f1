"""The public names that the packages of all frameworks share: the session, process sets, errors, objects, diagnosis."""

from rueda.build import (
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rocm_built,
)
from rueda.diagnosis import dump, stats
from rueda.errors import (
    CollectiveError,
    CollectiveTimeoutError,
    HorovodInternalError,
    HostsUpdatedInterrupt,
    MismatchError,
    NotInitializedError,
    PeerLostError,
    RemovedError,
    ShutDownError,
    UnsupportedError,
)
from rueda.objects import allgather_object, broadcast_object
from rueda.operations import Adasum, Average, BitAnd, BitOr, BitXor, Max, Min, Product, Sum
from rueda.process_sets import ProcessSet, add_process_set, global_process_set, init, remove_process_set
from rueda.session import (
    cross_rank,
    cross_size,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
)
from rueda.timeline import start_timeline, stop_timeline

__all__ = [
    "Adasum", "Average", "BitAnd", "BitOr", "BitXor", "CollectiveError", "CollectiveTimeoutError", "HorovodInternalError",
    "HostsUpdatedInterrupt", "Max", "Min", "MismatchError", "NotInitializedError", "PeerLostError", "ProcessSet", "Product",
    "RemovedError", "ShutDownError", "Sum", "UnsupportedError", "add_process_set", "allgather_object", "broadcast_object", "ccl_built",
    "cross_rank", "cross_size", "cuda_built", "ddl_built", "dump", "global_process_set", "gloo_built", "gloo_enabled",
    "init", "is_homogeneous", "is_initialized", "local_rank", "local_size", "mpi_built", "mpi_enabled",
    "mpi_threads_supported", "nccl_built", "rank", "remove_process_set", "rocm_built", "shutdown", "size", "start_timeline",
    "stats", "stop_timeline",
]  # fmt: skip
