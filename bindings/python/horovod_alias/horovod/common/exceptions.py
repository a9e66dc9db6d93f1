"""The exceptions, under the module name of Horovod."""

from rueda.errors import HorovodInternalError, HostsUpdatedInterrupt  # noqa: F401


def get_version_mismatch_message(name, version, installed_version):
    """The sentence of a HorovodVersionMismatchError."""
    return f"built for {name} {version}, and {installed_version} is installed"


class HorovodVersionMismatchError(ImportError):
    """The installed framework has another version than the one that the library was built for. Scripts catch this
    exception; Rueda never raises it, since its compiled parts are built for no framework."""

    def __init__(self, name, version, installed_version):
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name, self.version, self.installed_version = name, version, installed_version
