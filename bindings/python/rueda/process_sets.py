"""Process sets: the ranks that an operation is among."""

from typing import Any, List, Optional

from rueda import session


class ProcessSet:
    """Some ranks of the job. Operations that name it are among its members alone.

    ranks_or_comm: the ranks; kept in ascending order, each once.
    """

    def __init__(self, ranks_or_comm: Any):
        if not isinstance(ranks_or_comm, (list, tuple, range)):
            raise ValueError(f"ProcessSet({ranks_or_comm!r}): a list of ranks makes a process set")
        self._ranks = sorted({int(rank) for rank in ranks_or_comm})
        self.process_set_id: Optional[int] = None
        self.mpi_comm = None

    @property
    def ranks(self) -> Optional[List[int]]:
        """The members, in ascending order."""
        return self._ranks

    def size(self) -> Optional[int]:
        """The number of members; None while the set belongs to no job."""
        return None if self.process_set_id is None else len(self.ranks or ())

    def rank(self) -> Optional[int]:
        """This rank's place among the members, -1 where it is none; None while the set belongs to no job."""
        if self.process_set_id is None:
            return None
        return self.ranks.index(session.rank()) if self.included() else -1

    def included(self) -> Optional[bool]:
        """Whether this rank is a member; None while the set belongs to no job."""
        return None if self.process_set_id is None else session.rank() in self.ranks

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


class _AllRanks(ProcessSet):
    """The set of all ranks of whatever job this process is in."""

    def __init__(self) -> None:
        super().__init__([])
        self.process_set_id = 0

    @property
    def ranks(self) -> Optional[List[int]]:
        return list(range(session.size())) if session.is_initialized() else None

    def size(self) -> int:
        return session.size()

    def rank(self) -> int:
        return session.rank()

    def included(self) -> bool:
        return session.is_initialized()


global_process_set = _AllRanks()


def id_of(process_set: ProcessSet) -> int:
    """The number of the set in this job. ValueError: it belongs to none."""
    number = process_set.process_set_id
    if number is None:
        raise ValueError(f"{process_set} belongs to no job: add it with add_process_set() on all ranks")
    return number
