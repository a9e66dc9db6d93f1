"""Horovod's small helpers that scripts use."""

import contextlib
import importlib.util
import os
import re

from rueda import build


@contextlib.contextmanager
def env(**variables):
    """Environment variables that are set within `with`, and afterwards what they were. None: left alone."""
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
    """Whether there is support for a framework: for "torch", where PyTorch is installed. verbose: without meaning."""
    return ext_base_name == "torch" and importlib.util.find_spec("torch") is not None


def gpu_available(ext_base_name, verbose=False):
    """Whether the framework of this name sees a GPU. verbose: without meaning."""
    if not extension_available(ext_base_name):
        return False
    import torch

    return torch.cuda.is_available()


def check_extension(ext_name, *_):
    """ImportError: there is no support for the framework of this name, such as "horovod.torch". The other arguments are without
    meaning: what supports PyTorch is part of the package."""
    if not extension_available(ext_name.rpartition(".")[2]):
        raise ImportError(f"{ext_name}: Rueda serves PyTorch, where it is installed, and NumPy arrays as rueda.numpy")


def check_installed_version(*_):
    """Nothing: Rueda is built for no version of a framework."""


def mpi_built(verbose=False):
    """Whether operations can run through MPI. verbose: without meaning, here and below."""
    return build.mpi_built()


def gloo_built(verbose=False):
    """Whether operations run without MPI: always."""
    return build.gloo_built()


def nccl_built(verbose=False):
    """NCCL's version as a number, 0 without it."""
    return build.nccl_built()


def ddl_built(verbose=False):
    """Whether IBM's DDL is there: never."""
    return build.ddl_built()


def ccl_built(verbose=False):
    """Whether Intel's oneCCL is there: never."""
    return build.ccl_built()


def is_version_greater_equal_than(ver, target):
    """Whether a version such as "2.1.0+cpu" is `target` or a later one, by the numbers that they begin with. ValueError: it begins
    with none."""

    def numbers(text):
        found = re.match(r"\d+(\.\d+)*", text)
        if found is None:
            raise ValueError(f"version {text!r}: numbers with points between them are needed, such as '2.1.0'")
        parts = [int(part) for part in found[0].split(".")]
        return parts + [0] * (8 - len(parts))

    return numbers(ver) >= numbers(target)


def num_rank_is_power_2(num_rank):
    """Whether the number is a power of two."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(items, parts):
    """The items in `parts` lists, whose lengths differ by one at most."""
    whole, more = divmod(len(items), parts)
    return [items[i * whole + min(i, more) : (i + 1) * whole + min(i + 1, more)] for i in range(parts)]


def is_iterable(value):
    """Whether the value can be iterated over."""
    try:
        iter(value)
    except TypeError:
        return False
    return True
