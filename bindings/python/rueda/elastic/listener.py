"""Tells a state of notices as they come, on a thread of its own."""

import os
import select
import threading
from typing import Any

from rueda import errors, plans


class Listener:
    """Follows the notices of the job from its construction until end(). In a job that is not elastic it does nothing.

    The library knows at any time which changes the present plan does not have yet. What has been queued in the state is
    only a copy of that: refresh() makes it anew, so that a notice that was on its way while the job joined the next plan
    does not interrupt it again.

    The program may call membership() as well. What that tells the program the descriptor does not tell this thread, which
    may sleep on then. So each such call is heard here, too.
    """

    def __init__(self, state: Any):
        self._state = state
        self._lock = threading.RLock()  # held while the queue and the library are made to agree
        self._notices = 0  # how many of them the queue knows
        self._ends, self._end = -1, -1
        self._thread: Any = None
        if plans.membership().plan == 0:
            return
        notices = plans.notices_descriptor()
        self._ends, self._end = os.pipe()
        self._thread = threading.Thread(target=self._follow, args=(notices,), name="rueda-notices", daemon=True)
        self._thread.start()
        plans.listeners.append(self._hear)
        self.refresh()

    def _hear(self, where: plans.Membership) -> None:
        if where.notices != self._notices:
            self.refresh()

    def _follow(self, notices: int) -> None:
        waiting = select.poll()
        for descriptor in (notices, self._ends):
            waiting.register(descriptor, select.POLLIN)
        while all(descriptor != self._ends for descriptor, _ in waiting.poll()):
            try:
                self.refresh()
            except errors.NotInitializedError:  # the program has called shutdown(), which closes `notices`
                return

    def refresh(self) -> None:
        """Queues in the state what is coming and is not in the present plan; drops what is."""
        if self._thread is None:
            return
        with self._lock:
            coming = plans.membership_untold()
            self._notices = coming.notices
            self._state.take_notices()
            if coming.pending:
                self._state.on_hosts_updated(coming.notices, coming.pending)

    def end(self) -> None:
        """Ends the thread. Nothing is queued after this."""
        if self._thread is None:
            return
        plans.listeners.remove(self._hear)
        os.write(self._end, b"\0")
        self._thread.join()
        os.close(self._ends)
        os.close(self._end)
        self._thread = None
