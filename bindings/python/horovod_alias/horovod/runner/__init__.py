"""run() under the module name of Horovod."""

from rueda.launch import run  # noqa: F401
