"""The build backend of setuptools, but it refuses to build if Horovod is installed: files of the two would mix."""

import importlib.metadata
import sysconfig

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403


def _refuse_beside_horovod():
    # The build runs in an environment of its own, so look into the interpreter's folders, into which pip will install.
    folders = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    for found in importlib.metadata.distributions(path=folders):
        if found.metadata["Name"].lower() != "horovod":  # pip's finders may ignore names, and also find the package that is being built
            continue
        raise SystemExit(f"Horovod {found.version} is installed: 'pip uninstall horovod' first, or import rueda.torch instead")


def build_wheel(*args, **kwargs):
    """Builds the wheel. Exits if Horovod is installed."""
    _refuse_beside_horovod()
    return build_meta.build_wheel(*args, **kwargs)


def build_editable(*args, **kwargs):
    """Builds an editable wheel. Exits if Horovod is installed."""
    _refuse_beside_horovod()
    return build_meta.build_editable(*args, **kwargs)
