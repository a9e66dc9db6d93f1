"""Watchers of the session of this process, for code that runs where Python's session cannot be asked."""

from typing import Any, List


class Watcher:
    """Follows the session. rueda.session.watch() adds one; its methods are called by the thread that changes the
    session."""

    def begun(self, session: Any) -> None:
        """The process has joined a job."""

    def waiting(self, session: Any, why: str) -> None:
        """The process has joined a running job, and takes part in no operation until begun() is called for the same session.
        why: the sentence with which operations are refused."""
        self.begun(session)

    def ending(self, session: Any) -> None:
        """The process is about to leave; the session still works. Returns once nothing uses the session any more."""

    def failing(self, session: Any) -> None:
        """The process ends by an uncaught exception, and does not leave."""

    def forked(self, session: Any) -> None:
        """This process was forked from a rank, and is none."""


added: List[Watcher] = []
