"""A save or a sync that fails in its middle leaves what was saved before, of models and plain values alike."""

import copy
import threading

import numpy
import pytest
import torch

import rueda.torch as hvd
from rueda.elastic.variables import VariablesState
from rueda.torch.elastic import ObjectState, TorchState, handlers
from rueda.torch.elastic import state as torch_state

LOST = "rank 1 died while a device reduced"


class Root:
    """The rank whose state the others take: its model is full of sevens, its plain values are those given."""

    def __init__(self, monkeypatch, **values):
        self.values = values
        monkeypatch.setattr(handlers, "broadcast_parameters", self.fill)

    def broadcast(self, _mine, root_rank=0):
        return copy.copy(self.values)

    @staticmethod
    def fill(parameters, *_):
        for each in parameters.values():
            each.fill_(7)

    def model_state(self, **values):
        state = TorchState(model=torch.nn.Linear(2, 1), **values)
        state._bcast_object = self.broadcast
        return state


def weights(state):
    return [each.detach().clone() for each in state.model.parameters()]


def equal(ones, others):
    return all(torch.equal(one, other) for one, other in zip(ones, others))


def fail(_=None):
    raise hvd.HorovodInternalError(LOST)


def test_a_sync_whose_save_finds_that_the_job_has_broken_leaves_the_last_commit_whole(monkeypatch):
    state = Root(monkeypatch, step=70, seen=[7]).model_state(step=1, seen=[])
    state.step, state.seen = 2, [1, 2]
    state.save()
    committed, saves = weights(state), state._standing.saves
    with monkeypatch.context() as broken:
        broken.setattr(torch_state, "_settle", fail)
        with pytest.raises(hvd.HorovodInternalError, match=LOST):
            state.sync()
    assert state._standing.saves == saves and state._wants_sync()
    state.restore()
    assert (state.step, state.seen) == (2, [1, 2]) and equal(weights(state), committed)
    state.sync()
    state.step = 0
    state.restore()
    assert (state.step, state.seen) == (70, [7]) and all((each == 7).all() for each in weights(state)) and not state._wants_sync()


def test_a_sync_with_other_entries_of_the_root_takes_them_or_leaves_all(monkeypatch):
    state = Root(monkeypatch, step=70, more=[7]).model_state(step=1)
    with monkeypatch.context() as broken:
        broken.setattr(torch_state, "_settle", fail)
        with pytest.raises(hvd.HorovodInternalError):
            state.sync()
    state.restore()
    assert state.step == 1 and "more" not in state._saved_state
    state.save()  # of its own entries, and those that it has heard of
    state.sync()
    state.more.append(8)
    state.restore()
    assert (state.step, state.more) == (70, [7])


def test_a_sync_of_plain_values_of_which_one_cannot_be_copied_leaves_the_last_commit_whole():
    state = ObjectState(lambda _: {"step": 70, "held": threading.Lock()}, lambda: 0, step=1, held=None)
    with pytest.raises(ValueError, match="'held' of the state is a lock, which cannot be copied"):
        state.sync()
    state.restore()
    assert (state.step, state.held) == (1, None)


def test_a_save_of_plain_values_of_which_one_cannot_be_copied_saves_no_model_either(monkeypatch):
    state = Root(monkeypatch).model_state(step=1, held=None)
    committed = weights(state)
    state.step, state.held = 2, threading.Lock()
    Root.fill(state.model.state_dict())
    with pytest.raises(ValueError, match="'held' of the state is a lock, which cannot be copied"):
        state.save()
    state.restore()
    assert (state.step, state.held) == (1, None) and equal(weights(state), committed)


def test_such_a_save_saves_no_variables_either():
    class Mine(VariablesState):
        values = [numpy.zeros(2), numpy.zeros(3)]

        def read(self):
            return self.values

        def write(self, values):
            self.values = values

    state = Mine(step=1, held=None)
    state.values = [numpy.ones(2), numpy.ones(3)]
    state.held = threading.Lock()
    with pytest.raises(ValueError, match="'held' of the state is a lock, which cannot be copied"):
        state.save()
    state.restore()
    assert all((each == 0).all() for each in state.values)
