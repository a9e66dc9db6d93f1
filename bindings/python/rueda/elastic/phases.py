"""How long this worker was busy with what between two calls of the training function. When a plan begins, others wait for the
slowest worker, and the line of the logger `rueda.elastic` shows what that worker did meanwhile."""

import logging
import time
from typing import List, Tuple

LOG = logging.getLogger("rueda.elastic")


class Phases:
    """What has been done since begin(), one after the other, and the time of each. Belongs to the thread that trains."""

    def __init__(self) -> None:
        self._done: List[Tuple[str, float]] = []
        self._since = 0.0
        self.begin()

    def begin(self) -> None:
        """Begins anew: what was done before counts no more."""
        self._done.clear()
        self._since = time.monotonic()

    def end(self, what: str) -> None:
        """Says what this worker did since the end of the phase before."""
        now = time.monotonic()
        self._done.append((what, now - self._since))
        self._since = now

    def tell(self, worker: int, plan: int) -> None:
        """Logs all of it in one line of level INFO."""
        LOG.info("worker %d begins plan %d: %s", worker, plan, ", ".join(f"{what} {1e3 * took:.0f} ms" for what, took in self._done))
