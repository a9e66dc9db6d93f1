"""What this build of Rueda can do, asked in the words that scripts use."""

import json
from typing import Any, Dict

from rueda._native import ffi, lib


def build_info() -> Dict[str, Any]:
    """Version, build id, kernels, rows and plug-ins of the library."""
    return json.loads(ffi.string(lib.rueda_build_info()))


def _has_plugin(name: str) -> bool:
    return any(plugin.get("loaded") and plugin.get("name") == name for plugin in build_info()["plugins"])


def mpi_built() -> bool:
    """Whether operations can run through MPI."""
    return _has_plugin("mpi")


def mpi_enabled() -> bool:
    """Whether operations can run through MPI."""
    return mpi_built()


def mpi_threads_supported() -> bool:
    """Whether MPI may be used from several threads beside Rueda. Rueda needs no MPI, and none is initialised by it."""
    return False


def gloo_built() -> bool:
    """Whether operations run over shared memory and TCP without MPI: always."""
    return True


def gloo_enabled() -> bool:
    """The same."""
    return True


def cuda_built() -> bool:
    """Whether tensors in the memory of NVIDIA devices are reduced there."""
    return _has_plugin("cuda")


def nccl_built() -> int:
    """NCCL's version as a number, 0 without it."""
    for plugin in build_info()["plugins"]:
        if plugin.get("loaded") and "nccl" in plugin:
            return int(plugin["nccl"])
    return 0


def ddl_built() -> bool:
    """Whether IBM's DDL is there: never."""
    return False


def ccl_built() -> bool:
    """Whether Intel's oneCCL is there: never."""
    return False


def rocm_built() -> bool:
    """Whether tensors in the memory of AMD devices are reduced there: never."""
    return False
