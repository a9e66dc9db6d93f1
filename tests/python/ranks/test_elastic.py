"""States of elastic training, in a job that keeps its ranks: what they send, and what all ranks agree on."""

import pytest
import torch
from helpers import same_on_all_ranks

import rueda.numpy
import rueda.torch as hvd
from rueda import elastic, session, watchers
from rueda.elastic import agreement
from rueda.elastic.loop import run
from rueda.torch.elastic import ElasticSampler, HostUpdateResult, ObjectState, StateHandler, TorchState, handlers


def made_here():
    """A model, an optimizer with state, and a TorchState that differ between ranks."""
    torch.manual_seed(hvd.rank())
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (hvd.rank() + 1))
    model(torch.randn(4, 3)).square().sum().backward()
    optimizer.step()
    sampler = ElasticSampler(range(60))
    sampler.record_batch(0, hvd.rank())
    return TorchState(model=model, optimizer=optimizer, sampler=sampler, batch=hvd.rank(), seen=[hvd.rank()])


@pytest.mark.parametrize("root", [0, 1])
def test_a_sync_gives_all_ranks_the_present_state_of_the_root_and_commits_it(root):
    state = made_here()
    state.batch += 10
    state._standing.root = root
    state.sync()
    for _ in range(2):
        values = [*state.model.state_dict().values()]
        values += [value for entry in state.optimizer.state.values() for value in entry.values() if isinstance(value, torch.Tensor)]
        assert len(values) > 8 and all(same_on_all_ranks(value) for value in values)
        assert state.optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * (root + 1))
        assert (state.batch, state.seen) == (10 + root, [root])
        assert state.sampler.processed_num == root * hvd.size()
        state.batch = 99
        with torch.no_grad():
            state.model[0].weight.fill_(hvd.rank())
        state.restore()


class Counting(torch.nn.Linear):
    """A layer with extra state, of a value and a shape that differ between ranks."""

    def __init__(self):
        super().__init__(2, 2)
        self.seen, self.history = hvd.rank(), torch.arange(float(hvd.rank()))

    def get_extra_state(self):
        return {"seen": self.seen, "history": self.history}

    def set_extra_state(self, state):
        self.seen, self.history = state["seen"], state["history"]


@pytest.mark.parametrize("rest", [False, True])
def test_extra_state_of_modules_is_the_root_s_and_committed(rest):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), Counting())
    state = TorchState(model=model)
    state._standing.root = 1
    if rest:  # as ranks at one commit, which share parameters only
        assert state._wants_sync()
        state._handlers["model"].root_rank = 1
        state._handlers["model"].receive_rest()
        state._handlers["model"].save_rest()
    else:
        state.sync()
    for _ in range(3):
        assert model[1].seen == 1 and model[1].history.tolist() == [0]
        model[1].seen += 5
        model[1].history += 1
        state.restore()


class Counter:
    """A value of the program's own kind."""

    def __init__(self, count):
        self.count = count


class CounterHandler(StateHandler):
    """Sends from rank 0, as handlers for Horovod do."""

    def save(self):
        self.saved = self.value.count

    def restore(self):
        self.value.count = self.saved

    def sync(self):
        self.value.count = hvd.broadcast_object(self.value.count, root_rank=0)
        self.save()


def test_what_knows_no_root_but_rank_0_sends_what_the_root_has(monkeypatch):
    monkeypatch.setattr(handlers, "_registry", [(Counter, CounterHandler), *handlers.get_handler_registry()])
    state = TorchState(counter=Counter(hvd.rank() + 10), batch=hvd.rank())
    state._standing.root = 1
    state.sync()
    assert (state.counter.count, state.batch) == (11, 1)
    state.counter.count = 99
    state.restore()
    assert state.counter.count == 11
    for send in (lambda value: hvd.broadcast_object(value), lambda value: rueda.numpy.broadcast_object(value, 0), lambda value, **_: hvd.broadcast_object(value)):
        state = ObjectState(send, hvd.rank, batch=hvd.rank())
        state._standing.root = 1
        state.sync()
        assert state.batch == 1
    assert hvd.broadcast_object(hvd.rank(), 0) == 0


def test_a_sync_makes_no_gradients():
    """They would cost as much memory as the model."""
    state = made_here()
    state.optimizer.zero_grad(set_to_none=True)
    state.sync()
    assert all(parameter.grad is None for parameter in state.model.parameters())


def test_a_notice_that_one_rank_has_interrupts_all_at_the_same_check():
    state = ObjectState(hvd.broadcast_object, hvd.rank, batch=0)
    state.commit()
    if hvd.rank() == 1:
        state.on_hosts_updated(1, HostUpdateResult.removed)
    with pytest.raises(hvd.HostsUpdatedInterrupt) as caught:
        state.commit()
    assert caught.value.skip_sync
    state.on_hosts_updated(2, HostUpdateResult.added if hvd.rank() == 0 else HostUpdateResult.removed)
    with pytest.raises(hvd.HostsUpdatedInterrupt) as caught:
        state.check_host_updates()
    assert not caught.value.skip_sync
    state.commit()


def test_a_broadcast_of_the_program_gives_all_ranks_the_view_of_rank_0():
    state = ObjectState(lambda value: hvd.broadcast_object(value, 0), hvd.rank)
    if hvd.rank() == 0:
        state.on_hosts_updated(5, HostUpdateResult.added)
    with pytest.raises(hvd.HostsUpdatedInterrupt):
        state.check_host_updates()
    assert state._last_updated_timestamp == 5


def test_the_ranks_agree_on_the_root_and_on_whether_to_sync():
    standing = agreement.Standing()
    standing.follows_root = standing.shared = True
    last = hvd.size() - 1
    standing.commits = 3 + (hvd.rank() == last)
    assert agreement.agree_on_sync(standing, False) and (standing.root, standing.commits_of_root) == (last, 4)
    standing.taken()
    assert not agreement.agree_on_sync(standing, False) and standing.root == 0
    assert agreement.agree_on_sync(standing, hvd.rank() == 1) and standing.root == 0
    standing.follows_root, standing.commits = False, hvd.rank()  # a state of the program's takes rank 0's
    assert agreement.agree_on_sync(standing, False) and (standing.root, standing.commits_of_root) == (0, 0)


def test_new_workers_whom_nobody_can_give_the_state_do_not_begin_from_nothing():
    standing = agreement.Standing()
    standing.came_late = True
    with pytest.raises(RuntimeError, match="no worker is left that has the state of the training"):
        agreement.agree_on_sync(standing, True)
    standing.came_late = hvd.rank() > 0  # rank 0 has begun the job
    assert agreement.agree_on_sync(standing, True)
    standing.came_late, standing.shared = True, hvd.rank() == 0
    assert agreement.agree_on_sync(standing, True)


def test_the_function_runs_once_in_a_job_that_is_not_elastic():
    state = made_here()

    @run
    def train(state, factor, more=0):
        state.batch = state.batch * factor + more
        state.commit()
        return state.batch

    assert train(state, 2, more=5) == 5  # rank 0's
    with pytest.raises(hvd.UnsupportedError, match="this job is not elastic: .*hvdrun --min-np"):
        run(lambda state: state.on_hosts_updated(9, HostUpdateResult.added) or state.check_host_updates())(state)
    hvd.barrier()


def test_models_of_other_shapes_are_told_by_the_parameter_on_all_ranks():
    state = TorchState(model=torch.nn.Linear(2 + (hvd.rank() == 1), 1))
    with pytest.raises(hvd.MismatchError, match="'model.weight'.*shape"):
        state.sync()
    hvd.barrier()


def test_what_an_optimizer_has_left_of_a_step_is_dropped_by_a_restore():
    model = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters())
    state = TorchState(model=model, optimizer=optimizer)
    state.sync()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.synchronize()
    state.restore()
    for _ in range(2):  # more than one pass would be refused, were the first still counted
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert same_on_all_ranks(model.weight)


def test_a_job_that_is_not_elastic_has_no_plan_and_its_workers_no_number():
    here = elastic.membership()
    assert (here.plan, here.rank, here.size, here.pending) == (0, hvd.rank(), hvd.size(), HostUpdateResult.no_update)
    for call in (elastic.worker_id, elastic.reset):
        with pytest.raises(hvd.UnsupportedError, match="--min-np"):
            call()
    hvd.barrier()


@pytest.mark.parametrize("name, call", [
    ("allreduce", lambda: hvd.allreduce(torch.ones(1))),
    ("allreduce_", lambda: hvd.allreduce_(torch.ones(1))),
    ("broadcast_parameters", lambda: hvd.broadcast_parameters({"a": torch.ones(1)}, 0)),
    ("allgather_object", lambda: hvd.allgather_object(1)),
    ("allgather", lambda: rueda.numpy.allgather([1])),
    ("barrier", hvd.barrier),
])  # fmt: skip
def test_a_new_worker_of_a_running_job_may_call_no_collective_before_its_training(name, call):
    here = session.current()
    here.__class__ = session._Newcomer
    try:
        with pytest.raises(ValueError, match=rf"^{name}\(\): this process is a new worker of a running job; .*the function that elastic.run wraps"):
            call()
        hvd.DistributedOptimizer(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0), named_parameters=None)  # enqueues nothing
        assert hvd.stats() and elastic.membership().plan == 0
    finally:
        here.begin_training()
    hvd.barrier()


def test_what_runs_outside_of_python_is_told_that_a_new_worker_waits_and_when_it_takes_part():
    class Following(watchers.Watcher):
        told = []

        def begun(self, begun):
            self.told.append((begun, ""))

        def waiting(self, begun, why):
            self.told.append((begun, why))

    here = session.current()
    here.__class__ = session._Newcomer
    try:
        session.watch(Following())
    finally:
        here.begin_training()
        watchers.added.pop()
    here.begin_training()  # once more, as each training of the program does
    (first, why), second = Following.told
    assert first is here and why.startswith("a compiled operation: this process is a new worker of a running job") and second == (here, "")
    hvd.barrier()
