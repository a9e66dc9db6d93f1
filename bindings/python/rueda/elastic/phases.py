"""What this worker did between two calls of the training function, and how long each part took. When a plan begins, others wait for
the slowest worker, and the line of the logger `rueda.elastic` shows what that worker did meanwhile."""

import logging
import time
from typing import List, Tuple

LOG = logging.getLogger("rueda.elastic")


class Phases:
    """What has been done since begin(), one after the other, and the time of each. Nothing is noted before begin(), nor behind
    tell(). Belongs to the thread that trains."""

    def __init__(self) -> None:
        self._noting = False
        self._done: List[Tuple[str, float]] = []
        self._since = 0.0

    def begin(self) -> None:
        """Begins anew: what was done before counts no more."""
        self._noting, self._done, self._since = True, [], time.monotonic()

    def end(self, what: str) -> None:
        """Says what this worker did since the end of the phase before."""
        if self._noting:
            now = time.monotonic()
            self._done.append((what, now - self._since))
            self._since = now

    def tell(self, worker: int, plan: int) -> None:
        """Logs all of it in one line of level INFO, if there is anything."""
        if self._noting:
            LOG.info("worker %d begins plan %d: %s", worker, plan, ", ".join(f"{what} {1e3 * took:.0f} ms" for what, took in self._done))
        self._noting, self._done = False, []
