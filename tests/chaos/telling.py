"""What workers tell chaos and soak: lines of JSON, each with the moment of CLOCK_MONOTONIC and the number of the worker."""

import json
import os
import time


def tell(what, **more):
    """Writes a line in one piece."""
    line = {"what": what, "at": time.monotonic_ns(), "worker": int(os.environ["RUEDA_WORKER_ID"]), "pid": os.getpid(), **more}
    os.write(1, json.dumps(line).encode() + b"\n")
