"""Small functions of Horovod that scripts use."""

import contextlib
import functools
import importlib.util
import os
import re

from rueda import build


@contextlib.contextmanager
def env(**variables):
    """A context that sets environment variables, and restores them at its end. A variable with the value None is not
    changed."""
    wanted = {name: value for name, value in variables.items() if value is not None}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def extension_available(ext_base_name, verbose=False):
    """Returns whether Rueda supports a framework, such as "torch" or "mxnet", and that is installed. verbose: ignored."""
    return ext_base_name in ("torch", "tensorflow", "keras", "mxnet") and importlib.util.find_spec(ext_base_name) is not None


def gpu_available(ext_base_name, verbose=False):
    """Returns whether the framework of this name sees a GPU. verbose: ignored."""
    if ext_base_name not in ("torch", "tensorflow") or not extension_available(ext_base_name):
        return False
    if ext_base_name == "tensorflow":
        import rueda.tensorflow

        return rueda.tensorflow.gpu_available()
    import torch

    return torch.cuda.is_available()


def check_extension(ext_name, *_):
    """Raises ImportError if Rueda does not support the framework of this name, such as "horovod.torch". The other
    arguments are ignored, since the support for a framework needs no extension."""
    if not extension_available(ext_name.rpartition(".")[2]):
        raise ImportError(f"{ext_name}: Rueda supports PyTorch, TensorFlow, Keras and MXNet, if they are installed, and NumPy by rueda.numpy")


def check_installed_version(*_):
    """Does nothing: Rueda is built for no particular version of a framework."""


def mpi_built(verbose=False):
    """Returns whether operations can run through MPI. verbose: ignored, here and below."""
    return build.mpi_built()


def gloo_built(verbose=False):
    """Returns whether operations can run without MPI: always True."""
    return build.gloo_built()


def nccl_built(verbose=False):
    """The version of NCCL as a number; 0 if there is no NCCL."""
    return build.nccl_built()


def ddl_built(verbose=False):
    """Returns whether IBM's DDL is supported: always False."""
    return build.ddl_built()


def ccl_built(verbose=False):
    """Returns whether Intel's oneCCL is supported: always False."""
    return build.ccl_built()


def is_version_greater_equal_than(ver, target):
    """Returns whether a version such as "2.1.0+cpu" is `target` or later, by the numbers at their beginning. Raises
    ValueError if there are none."""

    def numbers(text):
        found = re.match(r"\d+(\.\d+)*", text)
        if found is None:
            raise ValueError(f"version {text!r}: give numbers with points between them, such as '2.1.0'")
        parts = [int(part) for part in found[0].split(".")]
        return parts + [0] * (8 - len(parts))

    return numbers(ver) >= numbers(target)


def num_rank_is_power_2(num_rank):
    """Returns whether the number is a power of two."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(items, parts):
    """Divides the items into `parts` lists with lengths that differ by at most one."""
    whole, more = divmod(len(items), parts)
    return [items[i * whole + min(i, more) : (i + 1) * whole + min(i + 1, more)] for i in range(parts)]


def is_iterable(value):
    """Returns whether the value can be iterated over."""
    try:
        iter(value)
    except TypeError:
        return False
    return True


def _cache(function):
    """A function without arguments that is called once; later calls return its first result."""
    return functools.lru_cache(maxsize=None)(function)
