"""setuptools, which refuses to build where a Horovod is installed: files of the two would mix."""

import importlib.metadata
import sysconfig

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403


def _refuse_beside_horovod():
    # A build runs in an environment of its own; where this goes is the interpreter's own folder.
    places = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    for found in importlib.metadata.distributions(path=places):
        if found.metadata["Name"].lower() != "horovod":  # pip's finders may look at no name, and find what is built here
            continue
        raise SystemExit(f"Horovod {found.version} is installed: 'pip uninstall horovod' first, or import rueda.torch instead")


def build_wheel(*args, **kwargs):
    _refuse_beside_horovod()
    return build_meta.build_wheel(*args, **kwargs)


def build_editable(*args, **kwargs):
    _refuse_beside_horovod()
    return build_meta.build_editable(*args, **kwargs)
