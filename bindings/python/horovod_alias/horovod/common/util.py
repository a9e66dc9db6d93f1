"""Horovod's small helpers that scripts use."""

import contextlib
import importlib.util
import os


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


def check_extension(*_):
    """Whether the extension is there: Rueda has one for all frameworks, and is imported by now."""


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
