"""Commits on disk: whatever ends the process that writes them, and whatever becomes of the files, the newest whole one is
found. No job is needed for that."""

import copy
import os
import pickle
import random
import resource
import signal
import warnings

import pytest
import torch

from rueda.elastic.checkpoint import Checkpoints
from rueda.elastic.variables import VariablesState
from rueda.torch.elastic import ObjectState, StateHandler, TorchState, get_handler_registry, set_handler_registry


def object_state(folder, every=1, **values):
    return ObjectState(copy.deepcopy, lambda: 0, checkpoint=folder, checkpoint_every=every, **values)


def in_folder(folder):
    return Checkpoints(folder, pickle.dump, pickle.load)


def names(folder):
    return sorted(os.listdir(folder))


def name(generation, commit):
    return f"{generation:06}-{commit:012}.checkpoint"


def begun(work):
    """The process of a child that runs the function, and then ends with code 1."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(1)
    return pid


def in_child(work):
    """Runs the function in a process of its own; returns minus the signal that has ended it, or 1."""
    return os.waitstatus_to_exitcode(os.waitpid(begun(work), 0)[1])


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


class Bomb:
    """Kills the process that pickles it."""

    def __reduce__(self):
        die()


def test_a_new_state_begins_with_the_newest_commit_and_two_files_stay(tmp_path):
    state = object_state(tmp_path / "made", batch=0)
    assert names(tmp_path / "made") == []  # the initial values are no commit
    for state.batch in range(1, 5):
        state.commit()
    assert names(tmp_path / "made") == [name(1, 3), name(1, 4)]
    resumed = object_state(tmp_path / "made", batch=0)
    assert resumed.batch == 4
    resumed.batch = 9
    resumed.restore()
    assert resumed.batch == 4
    resumed.commit()
    assert names(tmp_path / "made") == [name(1, 4), name(2, 5)]


def test_only_each_nth_commit_goes_to_disk(tmp_path):
    state = object_state(tmp_path, every=3, batch=0)
    for state.batch in range(1, 8):
        state.commit()
    assert names(tmp_path) == [name(1, 3), name(1, 6)]


def test_a_rank_other_than_0_writes_nothing(tmp_path):
    ObjectState(copy.deepcopy, lambda: 1, checkpoint=tmp_path, batch=0).commit()
    assert names(tmp_path) == []


@pytest.mark.parametrize("victim", ["dump", "fsync", "replace", "_remove"])
def test_a_writer_that_is_killed_at_any_step_leaves_a_whole_commit(tmp_path, monkeypatch, victim):
    state = in_folder(tmp_path)
    for commit in (1, 2):
        state.write(1, commit, commit)

    def work():
        from rueda.elastic import checkpoint

        if victim != "dump":
            setattr(checkpoint if victim == "_remove" else os, victim, die)
        state.write(1, 3, [b"x" * (3 << 20), Bomb()] if victim == "dump" else 3)

    assert in_child(work) == -signal.SIGKILL
    found = in_folder(tmp_path).newest()
    assert (found.commit, found.contents) == ((3, 3) if victim == "_remove" else (2, 2))
    in_folder(tmp_path).write(2, found.commit + 1, "next")
    assert len(names(tmp_path)) == 2 and names(tmp_path)[1].startswith("000002-")  # and nothing unfinished


@pytest.mark.filterwarnings("error")  # of a file that is not whole
def test_kills_at_random_moments_lose_no_commit_that_was_told(tmp_path):
    chance, told = random.Random(52), 0
    for generation in range(1, 41):
        reading, writing = os.pipe()

        def work():
            state = in_folder(tmp_path)
            for commit in range(told + 1, told + 1000):
                state.write(generation, commit, [commit, b"x" * chance.randrange(1 << 16)])
                os.write(writing, commit.to_bytes(8, "little"))

        pid = begun(work)
        os.close(writing)
        with open(reading, "rb") as pipe:
            for _ in range(chance.randrange(1, 6)):
                told = int.from_bytes(pipe.read(8), "little")
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            for last in iter(lambda: pipe.read(8), b""):
                told = int.from_bytes(last, "little")
        found = in_folder(tmp_path).newest()
        assert told <= found.commit <= told + 1 and found.contents[0] == found.commit and found.generation == generation
        told = found.commit


def test_contents_that_need_a_file_which_is_gone_are_an_error_and_no_endless_search(tmp_path):
    in_folder(tmp_path).write(1, 1, "contents")
    reads = []

    def load(file):
        reads.append(file)
        if len(reads) > 1:
            raise KeyboardInterrupt("the file is read again and again")
        raise FileNotFoundError("weights.bin is gone")

    with pytest.raises(ValueError, match="weights.bin is gone"):
        Checkpoints(tmp_path, pickle.dump, load).newest()


@pytest.mark.parametrize("damage, reason", [
    (lambda path: os.truncate(path, 0), "is not a checkpoint, or not whole"),
    (lambda path: os.truncate(path, 131), "is not whole: it has 3 bytes"),
    (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"!"), "is damaged: the SHA-256"),
], ids=["empty", "short", "changed"])  # fmt: skip
def test_a_damaged_file_gives_way_to_the_one_before_with_a_warning(tmp_path, damage, reason):
    writer = in_folder(tmp_path)
    for commit in (1, 2):
        writer.write(1, commit, commit)
    damage(tmp_path / name(1, 2))
    reader = in_folder(tmp_path)
    with pytest.warns(RuntimeWarning, match=f"{name(1, 2)}: {reason}.*the training goes on from .*{name(1, 1)}"):
        assert reader.newest().contents == 1
    reader.write(2, 2, "next")
    assert names(tmp_path) == [name(1, 1), name(2, 2)]  # the damaged one is not what stays
    for each in names(tmp_path):
        damage(tmp_path / each)
    with pytest.raises(ValueError, match="no checkpoint can be read: .*remove the files to begin anew"):
        in_folder(tmp_path).newest()


def test_no_prefix_of_a_file_and_no_file_with_a_flipped_bit_is_taken_for_whole(tmp_path):
    writer = in_folder(tmp_path)
    writer.write(1, 1, "before")
    writer.write(1, 2, "newest")
    path = tmp_path / name(1, 2)
    whole = path.read_bytes()
    wrong = [whole[:length] for length in range(len(whole))]
    wrong += [whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :] for at in range(len(whole)) for bit in range(8)]
    for contents in wrong:
        path.write_bytes(contents)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            found = in_folder(tmp_path).newest()
        # Spaces that fill the first line carry nothing.
        assert found.contents == "before" and len(heard) == 1 or found.contents == "newest" and contents.split() == whole.split(), contents


@pytest.mark.parametrize("make", [
    lambda folder, values: object_state(folder, values=values),
    lambda folder, values: TorchState(tensor=torch.tensor(values), checkpoint=folder),
], ids=["pickle", "torch"])  # fmt: skip
def test_a_disk_that_takes_no_more_fails_the_commit_and_keeps_the_ones_before(tmp_path, monkeypatch, make):
    from rueda.torch.elastic import state as torch_state

    monkeypatch.setattr(torch_state, "rank", lambda: 0)
    state = make(tmp_path, [1.0] * 1000000)
    state._write_commit()
    before, limits = names(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    state._standing.commits += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(OSError, match=f"commit 1 cannot be written to .*{name(1, 1)}.*: File too large; the commits before are whole"):
            state._write_commit()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names(tmp_path) == before == [name(1, 0)]


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"checkpoint='.*/file/below': this process cannot write there: Not a directory"):
        object_state(tmp_path / "file" / "below", batch=0)


def test_a_job_that_writes_to_the_folder_of_a_later_one_is_told(tmp_path):
    ours, theirs = (object_state(tmp_path, batch=0) for _ in range(2))
    theirs._standing.commits = 7
    theirs.commit()
    with pytest.raises(RuntimeError, match=f"has {name(1, 8)}, which is newer than this job's {name(1, 1)}: another job writes there"):
        ours.commit()


def test_a_model_of_another_shape_is_told_by_its_parameter(tmp_path):
    def state(width, **more):
        return TorchState(model=torch.nn.Linear(3, width), checkpoint=tmp_path, **more)

    wide = state(2)
    in_folder(tmp_path).newest()
    wide._checkpoints.write(1, 1, wide._kept())
    with pytest.raises(ValueError, match=r"does not fit this state: 'model': its 'weight' has shape \[2, 3\], that of the model \[4, 3\]; give"):
        state(4)
    with pytest.raises(ValueError, match="among the entries it lacks 'epoch'"):
        state(2, epoch=0)
    assert torch.equal(state(2).model.weight, wide.model.weight)


def test_a_handler_without_a_way_to_disk_is_refused_at_once(tmp_path):
    class Text(StateHandler):
        save = restore = sync = lambda self: None

    before = get_handler_registry()
    try:
        set_handler_registry([(str, Text), *before])
        with pytest.raises(NotImplementedError, match=r"Text must define kept\(\) and keep\(\)"):
            TorchState(word="x", checkpoint=tmp_path)
    finally:
        set_handler_registry(before)


def test_variables_of_other_frameworks_go_to_disk_too(tmp_path):
    class Variables(VariablesState):
        def __init__(self, values, **kwargs):
            self.variables = values
            super().__init__(**kwargs)

        def read(self):
            return [torch.tensor(value).numpy() for value in self.variables]

        def write(self, values):
            self.variables = [value.tolist() for value in values]

        def _variable_names(self):
            return [f"weight {number}" for number in range(len(self.variables))]

    first = Variables([[1.0, 2.0]], checkpoint=tmp_path, epoch=3)
    first._checkpoints.write(1, 1, first._kept())
    second = Variables([[0.0, 0.0]], checkpoint=tmp_path, epoch=0)
    assert (second.variables, second.epoch) == ([[1.0, 2.0]], 3)
    for values, why in (
        ([[0.0]], r"its 'weight 0' has shape \[2\], that of the state \[1\]"),
        ([[0.0, 0.0], [0.0]], r"it lacks 'weight 1'; it has 1 variables, the state 2"),
        ([], r"it also has 'weight 0'; it has 1 variables, the state 0"),
    ):
        with pytest.raises(ValueError, match=why):
            Variables(values, checkpoint=tmp_path, epoch=0)


def test_a_warm_up_changes_nothing_of_a_state_that_others_may_take_for_its_commit_on_disk(tmp_path):
    """A new worker with a commit of an earlier job may become the root. Without a folder the others' state replaces all."""
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1, momentum=0.5)
    plain = object_state(tmp_path / "plain", step=5)
    whole = TorchState(model=model, optimizer=optimizer, step=5, checkpoint=tmp_path / "whole")
    before = copy.deepcopy(model.state_dict())

    def take_step():
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        plain.step = whole.step = 1000

    for state in (plain, whole):
        state.register_warm_up_callbacks([take_step])
        state._prepare()
        assert state.step == 5
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(each.grad is None for each in model.parameters())
