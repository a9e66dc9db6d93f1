"""Who sends models and optimizers when workers join, and who receives them: the parts of that rule that need no job."""

import pytest
import torch

import rueda.torch as hvd
from rueda.elastic import agreement, loop
from rueda.torch.elastic import HostUpdateResult, ModelStateHandler, ObjectState, TorchState, get_handler_registry, handlers, set_handler_registry


def view(shared=True, commits=4, keeps=True, interrupted=True, wants_sync=True, host="a"):
    return agreement._View(shared, 0, commits, wants_sync, interrupted=interrupted, keeps=keeps, host=host)


def new(host="a"):
    return view(shared=False, commits=0, keeps=False, interrupted=False, host=host)


NEW = new()


@pytest.mark.parametrize("views, root, receivers", [
    ([view(), view(), NEW], 0, [0, 2]),
    ([NEW, view(), view(), NEW], 1, [0, 1, 3]),
    ([view(), NEW], 0, [0, 1]),
    ([view(interrupted=False), view(interrupted=False), NEW], 0, [0, 2]),  # both have gone back to their commit
    ([view(), view()], 0, [0]),  # nobody is new
    ([NEW, NEW], 0, None),  # nobody has the state
    ([view(), view(keeps=False), NEW], 0, None),
    ([view(keeps=False), view(), NEW], 0, None),  # the root's commit is not what it would send
    ([view(commits=5), view(), NEW], 0, None),
    ([view(), view(interrupted=False), NEW], 0, None),
])  # fmt: skip
def test_new_ranks_alone_receive_if_all_others_are_at_one_commit_and_unchanged(views, root, receivers):
    assert agreement.choose(views) == (True, root)
    assert agreement.receivers(views, root) == (receivers and (root, receivers))


@pytest.mark.parametrize("views, sender", [
    ([view(), view(host="b"), new("b")], 1),
    ([view(), view(host="b"), view(host="b"), new("b")], 1),  # the lowest there
    ([view(), view(), view(host="b"), new("a")], 0),
    ([view(), view(host="b"), new("a"), new("b"), new("b")], 1),  # the most new ones share its memory
    ([view(), view(host="b"), new("b"), new("a")], 0),  # as many here as there: the root
    ([view(), view(host="b"), new("c")], 0),  # none has memory in common with it
    ([new("b"), view(), view(host="b")], 2),
])  # fmt: skip
def test_a_holder_on_the_host_of_the_new_ranks_sends_models_and_optimizers(views, sender):
    _, root = agreement.choose(views)
    assert agreement.receivers(views, root) == (sender, sorted([sender, *(rank for rank, each in enumerate(views) if not each.shared)]))


def test_a_new_worker_lacks_the_training_until_it_has_it_in_whichever_state_the_program_keeps_it(monkeypatch):
    monkeypatch.setattr(loop, "Listener", lambda state: None)
    first, second, third = (ObjectState(hvd.broadcast_object, hvd.rank, step=0) for _ in range(3))
    loop._Agreed().begin(first, True)
    loop._Agreed().begin(second, False)  # the function was left by an error before its first sync
    assert second._standing.came_late
    loop._Agreed().synced(second)
    loop._Agreed().begin(third, False)
    assert not third._standing.came_late


class Among:
    """A process set that this rank is in."""

    included = staticmethod(lambda: True)


def test_a_transfer_among_some_ranks_that_breaks_leaves_the_next_one_to_all_ranks(monkeypatch):
    handler = ModelStateHandler(torch.nn.Linear(2, 2))
    seen = []

    def receive():
        seen.append((handler._process_set, handler.root_rank))
        raise hvd.HorovodInternalError("a rank died")

    monkeypatch.setattr(handler, "_receive_common", receive)
    among = Among()
    with pytest.raises(hvd.HorovodInternalError):
        handler.receive_among(among, 2)
    assert seen == [(among, 2)] and handler._process_set is hvd.global_process_set and handler.root_rank == 0


def committed(state):
    state._bcast_object = lambda value: value  # the broadcast of a job of one rank
    state.commit()
    return state


def make(*layers, **values):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), *layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    return committed(TorchState(model=model, optimizer=optimizer, step=0, **values))


def step(state):
    state.model(torch.ones(1, 2)).sum().backward()
    state.optimizer.step()


def test_a_state_is_at_its_commit_until_its_model_changes_and_again_once_it_is_restored():
    state = make()
    assert state._is_at_commit()
    state.step = 1  # a plain value, which all ranks take in any case
    assert state._is_at_commit()
    step(state)
    assert not state._is_at_commit()
    state.restore()
    assert state._is_at_commit()
    state.save()  # which other ranks may not have done
    assert not state._is_at_commit()
    state.commit()
    assert state._is_at_commit()


def test_reset_callbacks_may_make_ranks_at_one_commit_differ():
    state = make()
    state.register_reset_callbacks([print])
    assert not state._is_at_commit()


def test_a_new_worker_receives_each_parameter_and_buffer_once(monkeypatch):
    sent = []
    monkeypatch.setattr(handlers, "broadcast_parameters", lambda parameters, root, among=None: sent.append((sorted(parameters), root, among)))
    handler, among = make(torch.nn.BatchNorm1d(2))._handlers["model"], Among()
    handler.root_rank = 1
    handler.receive_among(among, 2)
    parameters = ["0.bias", "0.weight", "1.bias", "1.weight"]
    assert sent == [(parameters, 2, among), (["1.num_batches_tracked", "1.running_mean", "1.running_var"], 1, None)]


def test_buffers_alone_are_received_and_saved_again(monkeypatch):
    sent = []
    monkeypatch.setattr(handlers, "broadcast_parameters", lambda parameters, root: sent.append(parameters))
    state = make(torch.nn.BatchNorm1d(2))
    assert state._is_at_commit() and state._wants_sync()
    handler = state._handlers["model"]
    handler.receive_rest()
    assert [sorted(each) for each in sent] == [["1.num_batches_tracked", "1.running_mean", "1.running_var"]]
    sent[0]["1.running_mean"].fill_(7)
    torch.nn.init.ones_(state.model[0].weight)
    handler.save_rest()
    assert handler._saved["1.running_mean"].tolist() == [7, 7] and handler._saved["0.weight"].tolist() != [[1, 1]] * 2
    handler = make()._handlers["model"]
    handler.receive_rest()
    assert len(sent) == 1  # a model without buffers costs no operation


def test_a_model_that_has_no_parameters_yet_is_not_at_its_commit_once_it_has():
    state = committed(TorchState(model=torch.nn.LazyLinear(1)))
    assert state._is_at_commit()
    state.model(torch.ones(1, 2))
    assert not state._is_at_commit()
    state.commit()
    assert state._is_at_commit()


def test_states_and_handlers_of_the_program_send_to_all():
    class Mine(ModelStateHandler):
        pass

    class MyState(TorchState):
        pass

    assert not committed(MyState(model=torch.nn.Linear(1, 1)))._is_at_commit()
    before = get_handler_registry()
    try:
        set_handler_registry([(torch.nn.Linear, Mine), *before])
        state = TorchState(model=torch.nn.Linear(1, 1))
    finally:
        set_handler_registry(before)
    assert not committed(state)._is_at_commit()
    assert not committed(ObjectState(None, lambda: 0, step=0))._is_at_commit()  # small, so all take it


@pytest.mark.parametrize("call, at_commit", [("commit", True), ("check_host_updates", False)])
def test_an_interrupt_says_whether_it_comes_out_of_a_commit(call, at_commit):
    state = make()
    state.on_hosts_updated(1, HostUpdateResult.added)
    with pytest.raises(hvd.HostsUpdatedInterrupt) as caught:
        getattr(state, call)()
    assert caught.value.at_commit is at_commit and not hvd.HostsUpdatedInterrupt().at_commit


def test_a_rank_that_has_the_root_s_commit_saves_plain_values_only():
    state = make(seen=[])
    model, optimizer = (state._handlers[name]._saved for name in ("model", "optimizer"))
    state.seen = [1]
    state._standing.receivers, state._standing.shared = [0, 2], True
    state._save_received()
    assert state._handlers["model"]._saved is model and state._handlers["optimizer"]._saved is optimizer
    assert state._saved_state["seen"] == [1]
    state._standing.taken()
    assert state._standing.receivers is None  # a sync that the program calls is for all
    state._save_received()
    assert state._handlers["model"]._saved is not model
