"""The parts of elastic training that need no job: states, handlers, the sampler, and the loop with a job that is made up."""

import copy
import queue
import threading

import pytest
import torch

import rueda.torch as hvd
from rueda.elastic import agreement
from rueda.torch.elastic import (
    ElasticSampler,
    HostUpdateResult,
    ModelStateHandler,
    ObjectState,
    OptimizerStateHandler,
    State,
    StateHandler,
    TorchState,
    get_handler_registry,
    run_fn,
    set_handler_registry,
)


def alone(value):
    """The broadcast of a job of one rank."""
    return copy.deepcopy(value)


def object_state(**values):
    return ObjectState(alone, lambda: 0, **values)


def model_and_optimizer():
    torch.manual_seed(3)
    model = torch.nn.Linear(3, 2)
    return model, torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(4, 3)).square().sum().backward()
    optimizer.step()


def contents(model, optimizer):
    buffers = [optimizer.state[parameter].get("momentum_buffer") for parameter in model.parameters()]
    return [value.clone() for value in [*model.state_dict().values(), *(each for each in buffers if each is not None)]]


def equal(ones, others):
    return len(ones) == len(others) and all(torch.equal(one, other) for one, other in zip(ones, others))


def test_the_abstract_methods_name_the_class_and_reset_does_nothing():
    class Mine(State):
        pass

    state = Mine(alone, lambda: 0)
    for method in ("save", "restore", "sync"):
        with pytest.raises(NotImplementedError, match=rf"Mine must define {method}\(\)"):
            getattr(state, method)()
    assert state.reset() is None
    for method in ("save", "restore", "sync"):
        with pytest.raises(NotImplementedError, match=rf"StateHandler must define {method}\(\)"):
            getattr(StateHandler(1), method)()


def test_a_commit_is_a_copy_that_later_changes_do_not_reach():
    state = object_state(batch=1, seen=[1])
    state.batch, state.seen[0] = 2, 9
    state.restore()
    assert (state.batch, state.seen) == (1, [1])
    state.seen.append(2)
    state.commit()
    state.seen.append(3)
    state.restore()
    state.seen.append(4)  # of the restored list, which is not a reference to the saved one either
    state.restore()
    assert state.seen == [1, 2]


def test_step_mode_is_refused_by_states_of_other_kinds():
    with pytest.raises(ValueError, match="step_mode is for a TorchState of rueda.torch.elastic; a ObjectState goes back to commits"):
        object_state(step_mode=True)


def test_a_value_that_cannot_be_copied_is_named():
    with pytest.raises(ValueError, match="'held' of the state is a lock, which cannot be copied: TypeError.*keep it outside"):
        object_state(batch=0, held=threading.Lock())


def test_sync_sends_present_values_and_commits_them():
    sent = []

    def from_root(value, root_rank=0):
        sent.append(root_rank)
        return {"batch": 7, "seen": value["seen"] + [1]}

    state = ObjectState(from_root, lambda: 0, batch=0, seen=[])
    state.seen = [5]  # never saved
    state.sync()
    assert (state.batch, state.seen, sent) == (7, [5, 1], [0])
    state.batch = 8
    state.restore()
    assert (state.batch, state.seen) == (7, [5, 1])
    state._standing.root = 2
    state.sync()
    assert sent == [0, 2]


def test_notices_newer_than_the_last_are_joined_and_told_once():
    state = object_state()
    state.check_host_updates()
    assert state._host_messages.empty()
    state.on_hosts_updated(1, HostUpdateResult.removed)
    assert isinstance(state._host_messages, queue.Queue) and not state._host_messages.empty()
    with pytest.raises(hvd.HostsUpdatedInterrupt) as caught:
        state.check_host_updates()
    assert caught.value.skip_sync and state._last_updated_timestamp == 1
    state.check_host_updates()
    state.on_hosts_updated(1, HostUpdateResult.added)  # not newer
    state.check_host_updates()
    state.on_hosts_updated(2, HostUpdateResult.removed)
    state.on_hosts_updated(3, HostUpdateResult.added)
    with pytest.raises(hvd.HostsUpdatedInterrupt) as caught:
        state.commit()
    assert not caught.value.skip_sync
    state.on_hosts_updated(4, HostUpdateResult.added)
    state._last_updated_timestamp = 0
    state.on_reset()
    assert state._host_messages.empty()
    state.commit()
    assert HostUpdateResult.removed | HostUpdateResult.added == HostUpdateResult.mixed == 3


def test_reset_callbacks_run_in_their_order_behind_reset():
    calls = []

    class Mine(ObjectState):
        def reset(self):
            calls.append("reset")

    state = Mine(alone, lambda: 0)
    state.register_reset_callbacks([lambda: calls.append("a"), lambda: calls.append("b")])
    state.register_reset_callbacks([lambda: calls.append("c")])
    state.on_reset()
    assert calls == ["reset", "a", "b", "c"]


def test_a_model_and_an_optimizer_go_back_to_the_last_commit_and_go_on_alike():
    model, optimizer = model_and_optimizer()
    state = TorchState(model=model, optimizer=optimizer, batch=0)
    at_first = contents(model, optimizer)
    step(model, optimizer)
    state.save()
    committed = contents(model, optimizer)
    step(model, optimizer)
    after_two = contents(model, optimizer)
    for _ in range(2):  # a restore gives nothing away that the next step could change
        state.restore()
        assert equal(contents(model, optimizer), committed)
        step(model, optimizer)
        assert equal(contents(model, optimizer), after_two)
    fresh = TorchState(*model_and_optimizer())
    step(fresh.model, fresh.optimizer)
    fresh.restore()
    assert equal(contents(fresh.model, fresh.optimizer), at_first)


def test_assigning_to_a_handled_attribute_replaces_and_saves_it():
    model, optimizer = model_and_optimizer()
    state = TorchState(generator=model, judge=torch.nn.Linear(1, 1), optimizer=optimizer, batch=3)
    assert state.model is None and state.generator is model and state.optimizer is optimizer
    other, _ = model_and_optimizer()
    with torch.no_grad():
        other.weight.fill_(5)
    state.generator = other
    with torch.no_grad():
        other.weight.fill_(6)
    state.restore()
    assert state.generator is other and bool((other.weight == 5).all())
    state.model = model  # was None: it is taken care of from now on
    with torch.no_grad():
        before = model.weight.clone()
        model.weight.fill_(7)
    state.restore()
    assert torch.equal(state.model.weight, before) and state.batch == 3


def test_the_first_match_in_the_registry_counts():
    class Text(StateHandler):
        def save(self):
            self.saved = self.value.upper()

        def restore(self):
            self.value = self.saved

        def sync(self):
            self.save()

    before = get_handler_registry()
    try:
        set_handler_registry([(str, Text), *before])
        state = TorchState(word="x", model=torch.nn.Linear(1, 1))
        assert isinstance(state._handlers["word"], Text) and isinstance(state._handlers["model"], ModelStateHandler)
        state.save()
        assert state._handlers["word"].saved == "X"
    finally:
        set_handler_registry(before)


def test_the_handlers_reset_drops_the_gradients_of_a_step_that_failed():
    model, optimizer = model_and_optimizer()
    handler = OptimizerStateHandler(optimizer)
    model(torch.ones(1, 3)).sum().backward()
    handler.reset()
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in model.parameters())


class Job:
    """A job that is made up: it records what the loop does."""

    def __init__(self, *endings):
        self.endings, self.calls = list(endings), []

    def reset(self):
        self.calls.append("reset")

    def train(self, state, *args, **kwargs):
        self.calls.append("func")
        ending = self.endings.pop(0)
        if isinstance(ending, Exception):
            raise ending
        return ending, args, kwargs

    def state(self, sync_errors=()):
        calls, errors = self.calls, list(sync_errors)

        class Recording(State):
            def save(self):
                calls.append("save")

            def restore(self):
                calls.append("restore")

            def sync(self):
                calls.append("sync")
                if errors:
                    raise errors.pop(0)

            def reset(self):
                calls.append("state.reset")

        return Recording(alone, lambda: 0)

    def run(self, *args, sync_errors=(), **kwargs):
        return run_fn(self.train, self.reset)(self.state(sync_errors), *args, **kwargs)


def test_the_loop_returns_what_the_function_returns():
    job = Job("done")
    assert job.run(1, a=2) == ("done", (1,), {"a": 2})
    assert job.calls == ["sync", "func"]


def test_an_error_of_the_job_restores_and_syncs():
    job = Job(hvd.HorovodInternalError("lost"), hvd.PeerLostError("lost"), "done")
    job.run()
    again = ["restore", "reset", "state.reset", "sync", "func"]
    assert job.calls == ["sync", "func", *again, *again]


def test_an_error_in_the_sync_counts_like_one_of_the_function():
    job = Job("done")
    job.run(sync_errors=[hvd.HorovodInternalError("lost")])
    assert job.calls == ["sync", "restore", "reset", "state.reset", "sync", "func"]


def test_a_change_of_hosts_restores_nothing_and_syncs_unless_told_not_to():
    job = Job(hvd.HostsUpdatedInterrupt(False), hvd.HostsUpdatedInterrupt(True), "done")
    job.run()
    assert job.calls == ["sync", "func", "reset", "state.reset", "sync", "func", "reset", "state.reset", "func"]


@pytest.mark.parametrize("error", [KeyError("x"), hvd.MismatchError("differs"), hvd.UnsupportedError("no"), hvd.NotInitializedError("no")],
                         ids=lambda error: type(error).__name__)  # fmt: skip
def test_other_errors_leave_the_loop(error):
    job = Job(error)
    with pytest.raises(type(error)):
        job.run()
    assert job.calls == ["sync", "func"]


def test_a_reset_that_fails_says_why_it_was_tried():
    def reset():
        raise hvd.UnsupportedError("not elastic")

    job = Job(hvd.PeerLostError("rank 1 died"))
    with pytest.raises(hvd.UnsupportedError, match="not elastic") as caught:
        run_fn(job.train, reset)(job.state())
    assert "rank 1 died" in str(caught.value.__cause__)


def test_a_reset_callback_that_raises_leaves_the_loop_with_a_note_that_names_it():
    job = Job(hvd.PeerLostError("rank 1 died"), "done")
    state = job.state()
    state.register_reset_callbacks([list, lambda: 1 / 0, lambda: job.calls.append("another")])
    with pytest.raises(ZeroDivisionError) as caught:
        run_fn(job.train, job.reset)(state)
    (note,) = caught.value.__notes__
    assert note.startswith("Reset callback 2 of 3, ") and f"<lambda> ({__file__}, line " in note, note
    assert job.calls == ["sync", "func", "restore", "reset", "state.reset"]


def view(shared, commits, wants_sync=False, generation=0):
    return agreement._View(shared, generation, commits, wants_sync)


@pytest.mark.parametrize("views, wanted, root", [
    ([view(False, 0, True)] * 3, True, 0),  # at the start
    ([view(True, 4)] * 3, False, 0),  # workers have gone, and nothing is lost
    ([view(True, 4), view(True, 5), view(True, 5)], True, 1),  # one that died kept rank 0 from its last commit
    ([view(False, 0), view(True, 0)], True, 1),  # a new worker is never the root
    ([view(True, 4), view(True, 4, True)], True, 0),
    ([view(False, 9), view(True, 2)], True, 1),
    ([view(False, 9, generation=1), view(False, 2, generation=2)], True, 1),  # a later job wrote its commits to disk
])  # fmt: skip
def test_the_root_is_who_has_the_latest_commit_and_nothing_is_sent_if_all_have_it(views, wanted, root):
    assert agreement.choose(views) == (wanted, root)


def test_ranks_at_one_commit_are_equal_unless_only_some_of_them_were_interrupted():
    """One that was interrupted has its present state, one that has failed its commit."""
    interrupted, failed = (agreement._View(True, 0, 5, False, interrupted=way) for way in (True, False))
    assert agreement.choose([interrupted, interrupted]) == (False, 0)
    assert agreement.choose([failed, failed]) == (False, 0)
    assert agreement.choose([failed, interrupted]) == (True, 0)
    assert agreement.choose([interrupted, failed]) == (True, 0)


def stepping(point, clean=True, shared=True, commits=0):
    return agreement._View(shared, 0, commits, True, True, clean, point)


@pytest.mark.parametrize("views, root", [
    ([stepping(4), stepping(5), stepping(5)], 1),
    ([stepping(3), stepping(9, clean=False), stepping(3)], 1),  # it has committed a later step, and has changed its model since
    ([stepping(0, clean=False, shared=False), stepping(2, clean=False), stepping(1)], 1),
    ([stepping(2, clean=False), stepping(2)], 1),
    ([stepping(2, clean=False), stepping(8, clean=False, commits=1), stepping(2, clean=False, commits=3)], 1),
    ([stepping(0, shared=False, clean=False, commits=7), stepping(1)], 1),
    ([stepping(0, shared=False, clean=False), stepping(0, shared=False, clean=False, commits=7)], 1),  # at the start, from disk
])  # fmt: skip
def test_in_step_mode_the_root_is_at_the_latest_point_be_it_clean_or_a_commit(views, root):
    assert agreement.choose(views) == (True, root)


def test_run_takes_a_state():
    with pytest.raises(ValueError, match=r"the first argument is a int; give a State, such as TorchState\(model=...\)"):
        hvd.elastic.run(print)(3)


def test_the_names_are_where_horovod_has_them():
    import horovod.torch as alias
    from horovod.common import elastic as common
    from horovod.runner.elastic.worker import HostUpdateResult as of_runner
    from horovod.torch.elastic.sampler import ElasticSampler as of_sampler
    from horovod.torch.elastic.state import TorchState as of_state

    assert (common.State, common.ObjectState, common.run_fn) == (State, ObjectState, run_fn)
    assert (alias.elastic.run, alias.elastic.TorchState, of_state) == (hvd.elastic.run, TorchState, TorchState)
    assert (of_sampler, alias.elastic.ElasticSampler, of_runner) == (ElasticSampler, ElasticSampler, HostUpdateResult)


def test_the_launcher_s_flags_of_elastic_jobs_are_read_and_set_as_variables(monkeypatch):
    from horovod.runner import gloo_run, launch
    from horovod.runner.common.util import config_parser
    from horovod.runner.elastic import constants, driver

    line = ["horovodrun", "-np", "4", "--min-np", "2", "--max-num-proc", "8", "--reset-limit", "0", "--blacklist-cooldown-range", "1", "9", "-H",
            "a:2", "--log-level", "DEBUG", "python", "-m", "train", "--min-np", "3"]  # fmt: skip
    monkeypatch.setattr("sys.argv", line)
    args = launch.parse_args()
    assert (args.num_proc, args.min_num_proc, args.max_num_proc, args.reset_limit, args.cooldown_range) == (4, 2, 8, 0, [1, 9])
    assert (args.hosts, args.slots, args.elastic_timeout, args.host_discovery_script) == ("a:2", None, None, None)
    assert args.command == ["python", "-m", "train", "--min-np", "3"]
    monkeypatch.setattr(driver, "ELASTIC_TIMEOUT_SECS", 7)
    assert launch._words_of(args) == ["-np", "4", "--min-np", "2", "--max-np", "8", "--elastic-timeout", "7", "--reset-limit", "0", "-H", "a:2",
                                      "--log-level", "DEBUG", "--blacklist-after", "1", "--admit", "discovered",
                                      "--blacklist-cooldown-range", "1", "9"]  # fmt: skip
    args.fusion_threshold_mb, args.no_stall_check = 2, True
    assert config_parser.set_env_from_args({"X": "1"}, args) == {
        "X": "1", "HOROVOD_LOG_LEVEL": "DEBUG", "HOROVOD_FUSION_THRESHOLD": str(2 << 20), "HOROVOD_STALL_CHECK_DISABLE": "1"}  # fmt: skip
    assert gloo_run._get_min_start_hosts(args) == 1 and "3" in constants.RESET_LIMIT_EXCEEDED_MESSAGE.format(3)
