"""Limits of elastic jobs that horovod.runner.launch._run_elastic() hands to hvdrun, as they are when it is called."""

import os

DISCOVER_HOSTS_FREQUENCY_SECS = 1.0  # ignored: hvdrun runs the script each second
ELASTIC_TIMEOUT_SECS = int(os.environ.get("HOROVOD_ELASTIC_TIMEOUT") or 600)
