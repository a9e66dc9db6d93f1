"""Elastic training under the module name of Horovod."""

from rueda.elastic import HorovodInternalError, HostsUpdatedInterrupt, ObjectState, State, run_fn  # noqa: F401
