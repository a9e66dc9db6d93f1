"""What ranks agree on before they go on together: whether workers change, and whose state all ranks take."""

import collections
import inspect
import os
import socket
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from rueda import session
from rueda._native import ffi, lib
from rueda.handles import Handle, enqueue
from rueda.objects import allgather_object, broadcast_object
from rueda.operations import ALLREDUCE, BitOr, in_place_of_rank_0, make_options
from rueda.plans import HostUpdateResult

# A program may have operations of its own of any other name.
_CHECK = b"rueda.elastic.check"
_STANDINGS = "rueda.elastic.standings"


# A point between two steps, see rueda.torch.elastic.step_mode: the steps that lie before it, and a number that grows from point
# to point. Steps come first: a rank that took part in a step without a backward pass has passed fewer points than others.
Point = Tuple[int, int]
START: Point = (0, 0)


class Standing:
    """How far a rank's state is."""

    def __init__(self) -> None:
        self.generation = 0  # how many jobs the training goes back to by commits on disk; 0 without such commits
        self.commits = 0  # since the training began, whichever rank began it
        self.saves = 0  # how often the state, or a part of it, was saved
        self.committed_saves = -1  # how many of these there were when it was last committed, or made equal to the others'
        self.interrupted = False  # whether this rank has left its last plan by a notice, with its present state
        self.keeps = False  # whether models and optimizers are still those of the last commit, which the others at that commit have, too
        self.receivers: Optional[List[int]] = None  # the ranks among which large parts are sent next; None: all
        self.sender = 0  # the one of them that sends
        self.shared = False  # whether the state has been equal to the other ranks' since the process began
        self.came_late = False  # whether this worker has come to a job that was running
        self.follows_root = False  # whether sync() takes the state of `root`; else it takes rank 0's
        self.root = 0  # the rank whose state all ranks take next
        self.generation_of_root, self.commits_of_root, self.point_of_root = 0, 0, START
        self.by_steps = False  # whether present states count beside commits
        self.point = START  # the last point between steps that the training has passed
        self.clean = False  # whether the present state is the one at the last of these points; only if by_steps
        self.saved_at = START  # the point of the last commit
        self.restores = False  # whether all ranks go back to commits, because the root does

    def taken(self) -> None:
        """Notes that this rank has the root's state."""
        self.shared, self.generation, self.commits = True, self.generation_of_root, self.commits_of_root
        self.receivers = None  # a sync that the program calls itself is for all ranks
        self.point, self.clean = self.point_of_root, self.by_steps

    def committed(self) -> None:
        """Notes that what was saved last is the same on all ranks that have this commit."""
        self.committed_saves = self.saves

    def uncommitted(self) -> None:
        """Notes that it may differ."""
        self.committed_saves = -1


class _View(NamedTuple):
    shared: bool
    generation: int
    commits: int
    wants_sync: bool
    by_steps: bool = False
    clean: bool = False
    point: Point = START  # of the present state if that is clean, else of the last commit
    came_late: bool = False
    interrupted: bool = False
    keeps: bool = False
    host: str = ""

    @property
    def progress(self) -> Tuple[Any, ...]:
        """The greatest is the root's."""
        return self.shared, self.point, self.clean, self.generation, self.commits


def _view_of(standing: Standing, wants_sync: bool) -> _View:
    clean = standing.shared and standing.clean
    point = standing.point if clean else standing.saved_at
    host = os.environ.get("RUEDA_HOSTNAME") or socket.gethostname()  # as the library names it
    return _View(standing.shared, standing.generation, standing.commits, wants_sync, standing.by_steps, clean, point, standing.came_late,
                 standing.interrupted, standing.keeps, host)  # fmt: skip


def agree_on_notices(bcast_object: Callable[..., Any], newest: int, kinds: HostUpdateResult) -> Tuple[int, HostUpdateResult]:
    """The number of the newest notice, and what all ranks have heard together. Every rank gets the same kinds.

    A state over Rueda's own broadcast costs an all-reduce of 8 bytes. With a function of the program's, all ranks take
    the view of rank 0.
    """
    if bcast_object is not broadcast_object:
        newest, number = bcast_object((newest, int(kinds)))
        return newest, HostUpdateResult(number)
    current = session.current()
    if current.size == 1:
        return newest, kinds
    memory = ffi.new("int64_t*", int(kinds))
    address = int(ffi.cast("uintptr_t", memory))
    arguments = current.pointer, _CHECK, make_options(ALLREDUCE, 0, BitOr), (address, lib.RUEDA_I64, 1), [1], address
    enqueue(Handle, current, lib.rueda_py_start, arguments, memory).wait()
    return newest, HostUpdateResult(memory[0])


def broadcast_from(bcast_object: Callable[..., Any], root: int, value: Any) -> Any:
    """Returns the value of rank `root`. A function of the program's may have no argument for the root, or not use it. If it broadcasts
    from rank 0 with a function of the hvd dialect, that sends the root's value. If it broadcasts in another way, all ranks get rank 0's
    value, and a commit that only another rank has made is lost."""
    if root == 0:
        return bcast_object(value)
    with in_place_of_rank_0(root):
        return bcast_object(value, root_rank=root) if _takes_root(bcast_object) else bcast_object(value)


def _takes_root(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, root_rank=0)
    except (TypeError, ValueError):  # ValueError: a function in C that tells no signature
        return False
    return True


def choose(views: List[_View]) -> Tuple[bool, int]:
    """Whether the states are to be made equal, and the rank whose state all take: of those that have shared the training
    the one with the most commits, and of these the lowest. At the start of a job a rank whose commits on disk are of a
    later generation comes first.

    A rank may have one commit more than another: one that died has kept the other from its own. So nothing that any
    rank has committed is lost. If no rank wants a sync, all have the same commit and nobody is new, nothing is sent.

    If some ranks were interrupted and others have failed, something is sent: the first have their present state, the others
    their commit.

    In step mode the state at the latest point comes first, be it the present one of a clean rank or a commit.
    """
    root = max(range(len(views)), key=lambda rank: (*views[rank].progress, -rank))
    differ = any((view.progress, view.interrupted) != (views[0].progress, views[0].interrupted) for view in views)
    return differ or any(view.wants_sync for view in views), root


def receivers(views: List[_View], root: int) -> Optional[Tuple[int, List[int]]]:
    """Returns the rank that sends models and optimizers, and a list of it and the new ranks, if all others have them already:
    they are at one commit, and nothing has changed since. The list has the sender alone if nobody is new. Returns None if
    the root sends, and all ranks receive.

    The sender is on the host with the most new ranks, because they share memory with it."""
    others = [view for view in views if view.shared]
    alike = all(view.keeps and (view.progress, view.interrupted) == (others[0].progress, others[0].interrupted) for view in others)
    if not others or not alike:
        return None
    near = collections.Counter(view.host for view in views if not view.shared)
    holders = [rank for rank, view in enumerate(views) if view.shared]
    sender = max(holders, key=lambda rank: (near[views[rank].host], rank == root, -rank))
    return sender, [rank for rank, view in enumerate(views) if rank == sender or not view.shared]


def _require_one_mode(views: List[_View]) -> None:
    stepping = [rank for rank, view in enumerate(views) if view.by_steps]
    if stepping and len(stepping) < len(views):
        raise ValueError(f"the state has step_mode=True on ranks {stepping}, and not on the others of {len(views)}; give it on all ranks or on none")


def _require_state(views: List[_View]) -> None:
    """hvdrun takes a new worker for one that has the state once it has formed a plan with the others, and cannot see that the last one that
    had it died before it gave it away."""
    if all(view.came_late and not view.shared for view in views):
        raise RuntimeError("no worker is left that has the state of the training: the last one died before it could give it to the new "
                           "workers; start the job again")  # fmt: skip


def agree_on_sync(standing: Standing, wants_sync: bool) -> bool:
    """choose() by what all ranks say. Sets the root in the standing. Blocks; every rank calls it. Raises RuntimeError if no
    worker has the state of a training that has begun."""
    mine = _view_of(standing, wants_sync)
    views = [mine] if session.size() == 1 else [_View(*view) for view in allgather_object(tuple(mine), _STANDINGS)]
    _require_one_mode(views)
    _require_state(views)
    wanted, root = choose(views)
    standing.root = root if standing.follows_root else 0
    standing.sender, standing.receivers = receivers(views, root) or (root, None)
    theirs = views[standing.root]
    standing.generation_of_root, standing.commits_of_root, standing.point_of_root = theirs.generation, theirs.commits, theirs.point
    standing.restores = theirs.by_steps and theirs.shared and not theirs.clean
    return wanted or standing.restores
