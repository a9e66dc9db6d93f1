"""broadcast_object() and allgather_object() under the module name of Horovod."""

from rueda.objects import allgather_object, broadcast_object  # noqa: F401
