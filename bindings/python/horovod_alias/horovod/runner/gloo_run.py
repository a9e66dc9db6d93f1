"""Decisions of the launcher under the module name of Horovod."""


def _get_min_start_hosts(args):
    """How many hosts a job with these arguments waits for before it starts: always 1, since it waits for slots."""
    return 1
