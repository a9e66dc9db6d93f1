"""What a training consists of, and what survives of it."""

import copy
import pickle
import queue
from typing import Any, Callable, Dict, Iterable, List, Sequence

from rueda import newcomers
from rueda.arguments import whole_number
from rueda.elastic import agreement
from rueda.elastic.checkpoint import Checkpoints, DumpError, Found
from rueda.elastic.phases import Phases
from rueda.errors import CollectiveError, HostsUpdatedInterrupt
from rueda.object_bytes import unpicklable_entry
from rueda.plans import HostUpdateResult


class State:
    """The state of a training, which elastic.run gives to the program's function. This is the base class of all states.

    bcast_object: a function that gives every rank the object of rank 0, such as broadcast_object of rueda.torch.
    get_rank: a function that returns this rank. A subclass defines save(), restore() and sync().

    Threads: on_hosts_updated() may come from any thread; the rest is for the thread that trains.
    """

    def __init__(self, bcast_object: Callable[..., Any], get_rank: Callable[[], int]):
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages: "queue.Queue[Any]" = queue.Queue()  # pairs (timestamp, HostUpdateResult)
        self._last_updated_timestamp = 0
        self._reset_callbacks: List[Callable[[], None]] = []
        self._warm_up_callbacks: List[Callable[[], Any]] = []
        self._standing = agreement.Standing()
        self._phases = Phases()

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """Adds functions without arguments, which run in their order whenever this process has joined the next plan, before
        its state is made equal to the others'. A worker that is new does not run them. If one raises, a note at the error
        names it."""
        self._reset_callbacks.extend(_functions("register_reset_callbacks", callbacks))

    def register_warm_up_callbacks(self, callbacks: Sequence[Callable[[], Any]]) -> None:
        """Adds functions without arguments, which a new worker calls in their order while it waits outside of the running job.
        The others are interrupted only after that. So they do not wait for what makes a first step slow, such as memory
        that no process has used yet, and compilation.

        What the functions do to the state's values, and to what its models and optimizers put into their state_dict(), is
        replaced by the others' state. They may not call collectives; the distributed optimizers of a TorchState step with
        this rank's gradients alone meanwhile. If one raises, a note at the error names it, and the worker fails outside of
        the job."""
        self._warm_up_callbacks.extend(_functions("register_warm_up_callbacks", callbacks))

    def on_reset(self) -> None:
        """Called when this process has joined the next plan: drops notices, which that plan has answered, then calls reset()
        and the callbacks."""
        self.take_notices()
        self.reset()
        _call_all("Reset", self._reset_callbacks, "after the job had changed")

    def on_hosts_updated(self, timestamp: int, update_res: HostUpdateResult) -> None:
        """Notes that workers are to come or go; the next check tells the program. timestamp: a number that grows with each
        notice. Any thread may call it."""
        self._host_messages.put((timestamp, update_res))

    def take_notices(self) -> List[Any]:
        """Removes the notices that no check has seen, and returns their pairs. Any thread may call it."""
        taken = []
        while True:
            try:
                taken.append(self._host_messages.get_nowait())
            except queue.Empty:
                return taken

    def commit(self) -> None:
        """Saves the state, so that no failure takes it further back than here, then calls check_host_updates().

        A commit costs a copy of the state in host memory and an all-reduce of 8 bytes. All ranks commit equally often. If
        the state has checkpoint=, rank 0 writes the commit before that all-reduce. So the commit is on disk when this
        returns on any rank.
        """
        self.save()
        self._standing.commits += 1
        self._standing.committed()
        self._write_commit()
        try:
            self.check_host_updates()
        except HostsUpdatedInterrupt as interrupt:
            interrupt.at_commit = True
            raise

    def _write_commit(self) -> None:
        """Writes what save() has kept, if commits outlive the job. Does nothing here."""

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt, on all ranks or on none, if one of them has had a notice since the last check. Its
        skip_sync is true if workers only go. All ranks call this equally often; it blocks until they have."""
        newest, kinds = self._last_updated_timestamp, HostUpdateResult.no_update
        for timestamp, kind in self.take_notices():
            if timestamp > self._last_updated_timestamp:
                newest, kinds = max(newest, timestamp), kinds | kind
        self._last_updated_timestamp, kinds = agreement.agree_on_notices(self._bcast_object, newest, kinds)
        if kinds != HostUpdateResult.no_update:
            raise HostsUpdatedInterrupt(kinds == HostUpdateResult.removed)

    def save(self) -> None:
        """Keeps a copy of the state in host memory."""
        raise NotImplementedError(f"{type(self).__name__} must define save()")

    def restore(self) -> None:
        """Goes back to the copy that save() has kept."""
        raise NotImplementedError(f"{type(self).__name__} must define restore()")

    def sync(self) -> None:
        """Gives all ranks the state of one of them. Every rank calls it."""
        raise NotImplementedError(f"{type(self).__name__} must define sync()")

    def reset(self) -> None:
        """Called when this process has joined the next plan, for what depends on rank and size. Does nothing here."""

    def _failed(self) -> None:
        """elastic.run calls this when the job has broken."""
        self.restore()

    def _wants_sync(self) -> bool:
        """Whether the state must be made equal to the others' after a failure, even if all ranks go back to the same
        commit: because something was saved since, or because what reset callbacks or a subclass of the program's change would
        not be saved otherwise."""
        standing = self._standing
        of_program = type(self).__module__.partition(".")[0] != "rueda"
        saved_since = standing.saves == 0 or standing.committed_saves != standing.saves
        return of_program or saved_since or standing.by_steps or bool(self._reset_callbacks)

    def _is_at_commit(self) -> bool:
        """Whether a rank that has just saved or restored its last commit needs from another rank that has the same commit only
        what is small."""
        return False

    def _prepare(self) -> None:
        """elastic.run calls this in a new worker that waits outside, before the others are interrupted for it."""
        if self._warm_up_callbacks:
            self._warm_up()

    def _warm_up(self) -> None:
        """Calls the warm-up callbacks."""
        with newcomers.warming_up():
            _call_all("Warm-up", self._warm_up_callbacks, "while this new worker waited outside of the job")

    def _interrupted(self) -> None:
        """elastic.run calls this when the job is about to change."""

    def _agreed(self) -> None:
        """elastic.run calls this when all ranks know whose state counts, before reset()."""

    def _begins(self) -> None:
        """elastic.run calls this when all ranks have the same state, and the function is about to run."""


def _functions(called: str, callbacks: Any) -> List[Callable[[], Any]]:
    """The functions of a list. Raises TypeError, which names what was called, if anything else was given."""
    found = list(callbacks) if isinstance(callbacks, Iterable) else [None]
    if not all(callable(each) for each in found):
        raise TypeError(f"{called}({callbacks!r:.60}): give a list of functions without arguments, such as [function]")
    return found


def _call_all(kind: str, callbacks: Sequence[Callable[[], Any]], when: str) -> None:
    """Calls the functions. If one raises, a note at its error names it."""
    for number, callback in enumerate(callbacks, 1):
        try:
            callback()
        except Exception as error:
            error.add_note(f"{kind} callback {number} of {len(callbacks)}, {_name_of(callback)}, raised this {when}.")
            raise


def _name_of(callback: Callable[[], Any]) -> str:
    """What a reader of an error looks for in the program."""
    code = getattr(callback, "__code__", None)
    where = f" ({code.co_filename}, line {code.co_firstlineno})" if code is not None else ""
    return f"{getattr(callback, '__qualname__', None) or repr(callback)[:80]}{where}"


def copied(name: str, value: Any) -> Any:
    """A copy that shares nothing with the value. Raises ValueError, which names the entry, if it cannot be copied."""
    try:
        return copy.deepcopy(value)
    except Exception as error:  # __deepcopy__ may raise anything
        raise ValueError(f"{name!r} of the state is a {type(value).__name__}, which cannot be copied: {type(error).__name__}: {error}; "
                         "keep it outside of the state") from error  # fmt: skip


def require_picklable(state: State, values: Dict[str, Any], dump: Callable[[Any, Any], None] = pickle.dump) -> None:
    """Raises ValueError, which names the entry and the type of its value, if dump() cannot write one of the values."""
    bad = unpicklable_entry(values, dump)
    if bad is not None:
        raise ValueError(f"{bad.key!r} of the state is a {type(getattr(state, bad.key)).__name__}, which cannot be pickled: "
                         f"{type(bad.why).__name__}: {bad.why}; keep it outside of the state") from bad.why  # fmt: skip


def require_names(what: str, theirs: Any, ours: Any) -> None:
    """Raises ValueError, which names the differences, unless both have the same names."""
    lacks, more = sorted(set(ours) - set(theirs)), sorted(set(theirs) - set(ours))
    if lacks or more:
        differences = [f"{word} {', '.join(map(repr, names))}" for word, names in (("lacks", lacks), ("also has", more)) if names]
        raise ValueError(f"among the {what} it {' and '.join(differences)}")


class ObjectState(State):
    """A state of plain objects: each keyword becomes an attribute, which the program reads and sets.

    The values can be copied and pickled. In a job of several hosts without RUEDA_TLS=all they are data only, see
    broadcast_object(). Saves at construction, so restore() before the first commit gives the initial values. Raises
    ValueError, which names the keyword and the value's type, if a value cannot be copied; sync(), and a commit that goes
    to disk, do so if it cannot be pickled.

    checkpoint: a folder for commits on disk; None writes none. If it has commits of an earlier job, the state begins
    with the newest one. The folder is for one state of one job at a time. Only read folders that you trust, because the
    files are pickles.
    checkpoint_every: only each n-th commit goes to disk, and the others are kept in memory.
    Raises OSError if the folder cannot be written to, and ValueError if none of its files can be read, or if the newest
    does not fit the state; the sentence names the entry, and the parameter of a model.
    """

    _dump, _load = staticmethod(pickle.dump), staticmethod(pickle.load)  # to files of commits, and from them
    _checkpoints: Any = None

    def __init__(self, bcast_object: Callable[..., Any], get_rank: Callable[[], int], *, checkpoint: Any = None,
                 checkpoint_every: int = 1, **kwargs: Any):
        super().__init__(bcast_object, get_rank)
        if "step_mode" in kwargs:
            raise ValueError(f"step_mode is for a TorchState of rueda.torch.elastic; a {type(self).__name__} goes back to commits")
        self._standing.follows_root = True
        self._names = list(kwargs)  # of the plain values; those of the root since a sync
        self._saved_state: Dict[str, Any] = {}
        for name, value in kwargs.items():
            setattr(self, name, value)
        self.save()
        self._checkpoint_every = whole_number("checkpoint_every", checkpoint_every, 1)
        if checkpoint is not None:
            self._kept()  # a value that has no way to disk is refused now
            self._checkpoints = Checkpoints(checkpoint, self._dump, self._load)
            self._resume(self._checkpoints.newest())

    def _resume(self, found: Found) -> None:
        """Begins with a commit of an earlier job, if there is one, and begins the generation after it."""
        self._standing.generation, self._standing.commits = found.generation + 1, found.commit
        if found.path:
            try:
                self._keep(found.contents)
                self.restore()
            except Exception as error:  # load_state_dict() may raise anything
                raise ValueError(f"{found.path} does not fit this state: {error}; give the state that wrote it, or another folder") from error

    def _warm_up(self) -> None:
        super()._warm_up()
        if self._standing.generation:  # commits of an earlier job may make this rank the root
            self._undo_warm_up()

    def _undo_warm_up(self) -> None:
        """Goes back to the state before the callbacks."""
        self.restore()

    def _write_commit(self) -> None:
        if self._checkpoints is not None and self._rank() == 0 and self._standing.commits % self._checkpoint_every == 0:
            contents = self._kept()
            try:
                self._checkpoints.write(self._standing.generation, self._standing.commits, contents)
            except DumpError as error:
                for part in contents.values():
                    if isinstance(part, dict):
                        require_picklable(self, part, self._dump)
                raise ValueError(f"the commit cannot be pickled: {error}") from error

    def _kept(self) -> Dict[str, Any]:
        """What save() has kept, as it goes to disk."""
        return {"values": self._saved_state}

    def _keep(self, contents: Dict[str, Any]) -> None:
        """Has restore() set the contents, which _kept() has once returned. Raises ValueError if they do not fit."""
        require_names("entries", contents["values"], self._saved_state)
        self._saved_state = contents["values"]

    def save(self) -> None:
        """Copies the values of all attributes that were given to the constructor."""
        self._keep_values(self._copies())

    def _copies(self) -> Dict[str, Any]:
        """Copies of the plain values, before anything is replaced: one of them may refuse to be copied."""
        return {name: copied(name, getattr(self, name)) for name in self._names}

    def _keep_values(self, values: Dict[str, Any]) -> None:
        """Ends a save: keeps these plain values. All else that belongs to them has been kept."""
        self._saved_state = values
        self._standing.saves += 1

    def restore(self) -> None:
        """Sets the attributes to the values that save() has copied."""
        for name, value in self._saved_state.items():
            setattr(self, name, copied(name, value))

    def sync(self) -> None:
        """Gives every rank the present values of one rank, and saves them. That is rank 0, unless elastic.run has found a
        rank with a later commit. Raises ValueError, which names the keyword, on all ranks, if a value cannot be pickled;
        no value has changed then."""
        self._standing.uncommitted()  # until it is over: others may have the root's present values, and this rank its commit
        self._receive()
        self._phases.end("all received")
        self._save_received()
        self._phases.end("saved")
        self._standing.committed()

    def _save_received(self) -> None:
        """Saves what _receive() may have changed."""
        self.save()

    def _receive(self) -> None:
        """Takes the present values of the root, and saves nothing."""
        self._take(self._received())

    def _received(self) -> Dict[str, Any]:
        """The root's plain values."""
        present = {name: getattr(self, name) for name in self._names}
        try:
            return agreement.broadcast_from(self._bcast_object, self._standing.root, present)
        except CollectiveError:
            raise
        except Exception:  # a function of the program's may raise anything
            require_picklable(self, present)
            raise

    def _take(self, received: Dict[str, Any]) -> None:
        for name, value in received.items():
            setattr(self, name, value)
        self._names = list(received)
