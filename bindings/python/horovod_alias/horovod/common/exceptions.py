"""Horovod's place of its exceptions."""

from rueda.errors import HorovodInternalError, HostsUpdatedInterrupt  # noqa: F401


def get_version_mismatch_message(name, version, installed_version):
    """What a HorovodVersionMismatchError says."""
    return f"built for {name} {version}, and {installed_version} is installed"


class HorovodVersionMismatchError(ImportError):
    """A framework is of another version than the one that was built for. Rueda's compiled part is built for none, so it never
    raises this; scripts catch it."""

    def __init__(self, name, version, installed_version):
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name, self.version, self.installed_version = name, version, installed_version
