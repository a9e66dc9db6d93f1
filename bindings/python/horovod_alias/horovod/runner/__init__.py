"""Horovod's place of run()."""

from rueda.launch import run  # noqa: F401
