"""Values that a state can copy and nobody can pickle: the error names them, and nothing is left of what was begun."""

import os

import pytest
from conftest import _jobs

VALUES = """
import os, threading
from rueda import elastic

class Holder:
    def __init__(self):
        self.lock = threading.Lock()

    def __deepcopy__(self, memo):
        return Holder()

UNPICKLED = {"a lock": Holder, "a lambda": lambda: lambda: 0}["%s"]

def tell(text):
    print(f"{hvd.rank()}: {text}\\n", end="", flush=True)

hvd.init()
"""

SYNC = """
state = STATE(step=hvd.rank(), held=UNPICKLED() if hvd.rank() == 0 else None)

@elastic.run
def train(state):
    tell("trains")

try:
    train(state)
except ValueError as error:
    tell(error)
assert state.step == hvd.rank() == MARK(state)
state.held = 7
train(state)
assert (state.step, state.held, MARK(state)) == (0, 7, 0)
"""

COMMIT = """
state = STATE(step=0, held=None, checkpoint="commits")

@elastic.run
def train(state):
    state.step = 1
    state.commit()
    if hvd.rank() == 0:
        state.step, state.held = 2, UNPICKLED()
        try:
            state.commit()
        except ValueError as error:
            tell(error)
        print(f"files {sorted(os.listdir('commits'))}\\n", end="", flush=True)
        state.held = None
    state.step = 3
    state.commit()

train(state)
assert STATE(step=0, held=1, checkpoint="commits").step == 3
"""
# MARK tells which rank the state is from.
OBJECTS = """
STATE = lambda **values: elastic.ObjectState(hvd.broadcast_object, hvd.rank, **values)
MARK = lambda state: state.step
"""
MODELS = """
model = torch.nn.Linear(2, 1)
torch.nn.init.constant_(model.bias, hvd.rank())
STATE = lambda **values: hvd.elastic.TorchState(model=model, **values)
MARK = lambda state: state.model.bias.item()
"""

BOTH = pytest.mark.parametrize("what, kind, why", [
    ("a lock", "Holder", "TypeError: cannot pickle '_thread.lock' object"),
    ("a lambda", "function", "Can't pickle"),
])  # fmt: skip


KINDS = pytest.mark.parametrize("make, imports", [(OBJECTS, _jobs.NUMPY), (MODELS, _jobs.TORCH)], ids=["objects", "with a model"])


@BOTH
@KINDS
def test_a_value_that_cannot_be_sent_is_named_on_all_ranks_and_changes_nothing(run_script, what, kind, why, make, imports):
    done = run_script(VALUES % what + make + SYNC, "--min-np", "2", "--elastic-timeout", "0", imports=imports)
    assert done.code == 0, done.out + done.err
    assert done.lines(0)[0].startswith(f"0: 'held' of the state is a {kind}, which cannot be pickled: ") and why in done.lines(0)[0]
    assert done.lines(0)[0].endswith("; keep it outside of the state")
    assert f"rank 0 gave a dict whose 'held' is a {kind} that cannot be pickled: " in done.lines(1)[0] and why in done.lines(1)[0]
    assert done.lines(0)[1:] == ["0: trains"] and done.lines(1)[1:] == ["1: trains"]


@BOTH
@KINDS
def test_a_value_that_cannot_go_to_disk_is_named_and_no_file_of_that_commit_is_left(run_script, tmp_path, what, kind, why, make, imports):
    done = run_script(VALUES % what + make + COMMIT, "--min-np", "2", "--elastic-timeout", "0", imports=imports)
    assert done.code == 0, done.out + done.err
    told, files = done.lines(0)
    assert told.startswith(f"0: 'held' of the state is a {kind}, which cannot be pickled: ") and why in told, told
    assert files == "files ['000001-000000000001.checkpoint']"
    assert sorted(os.listdir(tmp_path / "commits")) == ["000001-000000000001.checkpoint", "000001-000000000003.checkpoint"]
