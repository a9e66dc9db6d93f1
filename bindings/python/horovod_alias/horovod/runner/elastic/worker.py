"""What a worker is told of its job, under the module name of Horovod."""

from rueda.elastic import HostUpdateResult  # noqa: F401
