"""What this build of Rueda supports, under the names that Horovod scripts ask with."""

import ctypes
import json
import os
import pathlib
from typing import Any, Dict

from rueda._native import ffi, lib

_NCCL = "libnccl.so.2"
_BESIDE = pathlib.Path(__file__).parents[1] / "nvidia" / "nccl" / "lib" / _NCCL  # where pip puts it
_OLDEST_NCCL = 21400  # as in ops/cuda/nccl_library.cc


def build_info() -> Dict[str, Any]:
    """The version, build id, kernels, algorithms and plug-ins of the library."""
    return json.loads(ffi.string(lib.rueda_build_info()))


def _has_plugin(name: str) -> bool:
    return any(plugin.get("loaded") and plugin.get("name") == name for plugin in build_info()["plugins"])


def mpi_built() -> bool:
    """Returns whether operations can run through MPI."""
    return _has_plugin("mpi")


def mpi_enabled() -> bool:
    """Returns whether operations can run through MPI."""
    return mpi_built()


def mpi_threads_supported() -> bool:
    """Returns False, whichever MPI is used: kept for scripts written for Horovod. Over MPI, Rueda initialises MPI with
    MPI_THREAD_MULTIPLE unless the program has initialised it."""
    return False


def gloo_built() -> bool:
    """Returns whether operations can run over shared memory and TCP without MPI: always True."""
    return True


def gloo_enabled() -> bool:
    """Returns gloo_built()."""
    return True


def cuda_built() -> bool:
    """Returns whether the CUDA plug-in is installed. With it the C API and rueda.torch use tensors in the memory
    of NVIDIA devices where they lie."""
    return _has_plugin("cuda")


def nccl_built() -> int:
    """The version of NCCL that operations on GPUs use, as a number: 22809 for 2.28.9. 0 if there is none, if it is older than
    2.14, or without the CUDA plug-in. As operations do, takes the library that RUEDA_NCCL_LIBRARY names, else the one that
    the process has loaded, else the one that pip has installed beside Rueda, else what the dynamic linker finds."""
    if not cuda_built():
        return 0
    named = os.environ.get("RUEDA_NCCL_LIBRARY")
    candidates = [(named, os.RTLD_LAZY)] if named else [
        (_NCCL, os.RTLD_LAZY | os.RTLD_NOLOAD), (str(_BESIDE), os.RTLD_LAZY), (_NCCL, os.RTLD_LAZY)]  # fmt: skip
    for name, mode in candidates:
        version = ctypes.c_int()
        try:
            failed = ctypes.CDLL(name, mode).ncclGetVersion(ctypes.byref(version))
        except (OSError, AttributeError):  # no such library, or another one of that name
            continue
        return version.value if failed == 0 and version.value >= _OLDEST_NCCL else 0
    return 0


def ddl_built() -> bool:
    """Returns whether IBM's DDL is supported: always False."""
    return False


def ccl_built() -> bool:
    """Returns whether Intel's oneCCL is supported: always False."""
    return False


def rocm_built() -> bool:
    """Returns whether tensors in the memory of AMD devices are reduced there: always False."""
    return False
