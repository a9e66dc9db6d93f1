"""Horovod's place of its exceptions."""

from rueda.errors import HorovodInternalError, HostsUpdatedInterrupt  # noqa: F401
