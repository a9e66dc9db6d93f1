"""What workers tell chaos and soak: lines of JSON, each with the moment of CLOCK_MONOTONIC, and the number, the host and the slot
of the worker."""

import json
import os
import time


def tell(what, **more):
    """Writes a line in one piece."""
    where = {"host": os.environ["HOROVOD_HOSTNAME"], "slot": int(os.environ["RUEDA_LOCAL_RANK"])}
    line = {"what": what, "at": time.monotonic_ns(), "worker": int(os.environ["RUEDA_WORKER_ID"]), "pid": os.getpid(), **where, **more}
    os.write(1, json.dumps(line).encode() + b"\n")
