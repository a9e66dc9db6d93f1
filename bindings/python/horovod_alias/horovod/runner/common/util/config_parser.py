"""Turns flags of the launcher into environment variables, under the module name of Horovod."""

_VARIABLES = {
    "cache_capacity": "HOROVOD_CACHE_CAPACITY",
    "cycle_time_ms": "HOROVOD_CYCLE_TIME",
    "elastic_timeout": "HOROVOD_ELASTIC_TIMEOUT",
    "gloo_timeout_seconds": "HOROVOD_GLOO_TIMEOUT_SECONDS",
    "log_level": "HOROVOD_LOG_LEVEL",
    "stall_check_shutdown_time_seconds": "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
    "stall_check_warning_time_seconds": "HOROVOD_STALL_CHECK_TIME_SECONDS",
    "thread_affinity": "HOROVOD_THREAD_AFFINITY",
    "timeline_filename": "HOROVOD_TIMELINE",
}
_SWITCHES = {
    "hierarchical_allgather": "HOROVOD_HIERARCHICAL_ALLGATHER",
    "hierarchical_allreduce": "HOROVOD_HIERARCHICAL_ALLREDUCE",
    "log_hide_timestamp": "HOROVOD_LOG_HIDE_TIME",
    "no_stall_check": "HOROVOD_STALL_CHECK_DISABLE",
    "timeline_mark_cycles": "HOROVOD_TIMELINE_MARK_CYCLES",
}


def set_env_from_args(env, args):
    """Sets in `env` the variables for those attributes of `args` that are there and not None, and returns it."""
    for name, variable in _VARIABLES.items():
        if getattr(args, name, None) is not None:
            env[variable] = str(getattr(args, name))
    for name, variable in _SWITCHES.items():
        if getattr(args, name, None) is not None:
            env[variable] = "1" if getattr(args, name) else "0"
    megabytes = getattr(args, "fusion_threshold_mb", None)
    if megabytes is not None:
        env["HOROVOD_FUSION_THRESHOLD"] = str(int(megabytes) << 20)
    return env
