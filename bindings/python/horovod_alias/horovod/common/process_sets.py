"""Horovod's place of process sets."""

from rueda.process_sets import ProcessSet, global_process_set  # noqa: F401
