"""Limits of elastic jobs that horovod.runner.launch._run_elastic() hands to hvdrun, as they are when it is called."""

import math
import os


def _seconds_in(text):
    """The seconds in a variable; None if it has no number, since hvdrun reads the variable, too, and then refuses it by name."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() else value


DISCOVER_HOSTS_FREQUENCY_SECS = 1.0  # from a run of the host discovery script to the next one
ELASTIC_TIMEOUT_SECS = _seconds_in(os.environ.get("HOROVOD_ELASTIC_TIMEOUT") or "600")
