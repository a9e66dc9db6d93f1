"""Points between steps, in a job that keeps its ranks: when a rank is clean, and to what it goes back."""

import pytest
import torch
from helpers import same_on_all_ranks

import rueda.torch as hvd
from rueda.elastic import agreement
from rueda.torch.elastic import ElasticSampler, StateHandler, TorchState, get_handler_registry, set_handler_registry


def made(passes=1, **more):
    """A model, its distributed optimizer, and a state that trains."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    optimizer = distributed(model, backward_passes_per_step=passes)
    return begun(TorchState(model=model, optimizer=optimizer, step_mode=True, step=0, sampler=ElasticSampler(range(60)), **more))


def distributed(model, **options):
    return hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5), named_parameters=model.named_parameters(), **options)


def begun(state):
    """Begins a round as elastic.run does."""
    wanted = agreement.agree_on_sync(state._standing, True)
    state._agreed()
    assert wanted
    state.sync()
    state._standing.taken()
    state._begins()
    return state


def backward(state):
    state.model(torch.ones(1, 2)).sum().backward()


def step(state):
    state.optimizer.zero_grad()
    backward(state)
    state.optimizer.step()


def left(state):
    """Leaves the function, and says whether the rank is clean."""
    state._failed()
    return state._standing.clean


def test_a_rank_is_clean_until_its_optimizer_updates_and_goes_back_to_its_last_point():
    state = made()
    assert state._standing.point[1] == 0 and agreement._view_of(state._standing, True).clean
    step(state)
    assert not left(state)
    state = made()
    step(state)
    state.step = 1
    state.sampler.record_batch(0, 1)
    state.check_host_updates()
    weights = [each.clone() for each in state.model.parameters()]
    state.step, state.optimizer.param_groups[0]["lr"] = 7, 9.0
    state.sampler.record_batch(0, 5)
    backward(state)
    state.optimizer.synchronize()  # as far as a step gets whose update has not begun
    assert left(state) and state._standing.point[1] == 1
    assert (state.step, state.sampler.processed_num, state.optimizer.param_groups[0]["lr"]) == (1, hvd.size(), 0.5)
    assert all(torch.equal(one, other) for one, other in zip(weights, state.model.parameters()))


def test_the_first_gradient_of_the_next_step_is_a_point():
    state = made(passes=2)
    for number in range(3):
        state.optimizer.zero_grad()
        for part in range(2):
            backward(state)
            assert state._standing.point[1] == number
            state.step += 0.5  # counts passes
            state.check_host_updates()  # between passes it is no point
        state.optimizer.step()
    assert not left(state)
    state = made(passes=2)
    state.optimizer.zero_grad()
    for _ in range(2):
        backward(state)
    state.optimizer.step()
    state.step = 1
    state.optimizer.zero_grad()
    backward(state)
    state.step = 1.5
    assert left(state) and (state.step, state._standing.point[1]) == (1, 1)


def test_a_commit_between_two_passes_keeps_the_step_before():
    state = made(passes=2)
    backward(state)
    state.step = 0.5
    state.commit()
    state.restore()
    assert (state.step, state._standing.saved_at[1]) == (0, 0)
    backward(state)
    backward(state)
    state.optimizer.step()
    state.step = 1
    state.commit()
    state.step = 2
    state.restore()
    assert state.step == 1 and state._standing.saved_at[1] == state._standing.point[1] - 1 == 1
    hvd.barrier()


def test_parameters_that_the_program_changes_belong_to_the_step_up_to_its_point():
    state = made()
    step(state)
    with torch.no_grad():
        state.model[0].weight.clamp_(-0.1, 0.1)
    state.check_host_updates()
    assert left(state)
    state._begins()
    with torch.no_grad():
        state.model[0].weight.mul_(2)
    assert not left(state)
    state._begins()
    state.model = torch.nn.Linear(2, 1)
    assert not left(state)
    hvd.barrier()


def test_two_optimizers_are_between_steps_when_both_have_taken_as_many():
    parts = [torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)]
    first, second = (distributed(part) for part in parts)
    state = begun(TorchState(a=parts[0], b=parts[1], first=first, second=second, step_mode=True))

    def step_of(part, optimizer):
        optimizer.zero_grad()
        part(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    step_of(parts[0], first)
    parts[1](torch.ones(1, 2)).sum().backward()
    assert state._standing.point[1] == 0  # one has stepped, the other has not
    second.step()
    second.zero_grad()
    first.zero_grad()
    parts[0](torch.ones(1, 2)).sum().backward()
    assert state._standing.point[1] == 1
    first.step()
    assert not left(state)
    hvd.barrier()


def test_a_loss_scale_goes_back_with_the_step_that_failed():
    if not hasattr(torch.amp, "GradScaler"):
        pytest.skip("this PyTorch has no GradScaler for CPUs")
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    state = made(scaler=scaler)

    def scaled_step(loss):
        state.optimizer.zero_grad()
        scaler.scale(loss).backward()
        state.optimizer.synchronize()
        scaler.unscale_(state.optimizer)
        with state.optimizer.skip_synchronize():
            scaler.step(state.optimizer)
        scaler.update()

    scaled_step(state.model(torch.ones(1, 2)).sum() * (float("inf") if hvd.rank() == 1 else 1.0))
    state.check_host_updates()
    assert (scaler.get_scale(), state.optimizer._begun, state._standing.point[1]) == (512.0, 0, 1)  # all have skipped it
    scaler.update(2048.0)
    state.optimizer.zero_grad()
    scaler.scale(state.model(torch.ones(1, 2)).sum()).backward()
    state.optimizer.synchronize()
    scaler.unscale_(state.optimizer)
    assert left(state) and scaler.get_scale() == 512.0
    state.on_reset()
    scaled_step(state.model(torch.ones(1, 2)).sum())  # unscale_() once more is no error
    assert same_on_all_ranks(state.model[0].weight) and state.optimizer._begun == 1


def test_a_rank_that_is_not_as_far_as_the_root_keeps_a_copy_while_it_takes_the_root_s_state():
    state, last = made(), hvd.size() - 1
    step(state)
    state.step = 1
    state.check_host_updates()
    if hvd.rank() == last:  # as if the others had died before the end of this step
        with torch.no_grad():
            state.model[0].bias.fill_(5)
        state.step = 2
        state._steps.pass_point()
    assert left(state)
    assert agreement.agree_on_sync(state._standing, True) and state._standing.root == last
    state._agreed()
    assert state._standing.clean == (hvd.rank() == last)
    if hvd.rank() != last:
        state.restore()
        assert state.step == 1 and state._standing.saved_at[1] == 1
    state.sync()
    assert state.step == 2 and bool((state.model[0].bias == 5).all()) and state._standing.saved_at[1] == 2
    hvd.barrier()


def test_without_a_clean_rank_all_go_back_to_the_commit_and_a_warning_says_why():
    state = made()
    step(state)
    state.step = 1
    state.commit()
    weights = state.model[0].weight.clone()
    step(state)
    state.step = 2
    state.check_host_updates()  # a later point, which the commit does not have
    step(state)
    assert not left(state) and not torch.equal(weights, state.model[0].weight)
    assert agreement.agree_on_sync(state._standing, True) and state._standing.restores
    if hvd.rank() == 0:
        with pytest.warns(RuntimeWarning, match="the rank that is furthest was not between two steps"):
            state._agreed()
    else:
        state._agreed()
    assert torch.equal(weights, state.model[0].weight) and state.step == 1 and state._standing.clean
    assert left(state) and state.step == 1  # the sync has failed
    hvd.barrier()


def test_states_of_which_only_some_have_step_mode_are_refused_on_all_ranks():
    standing = agreement.Standing()
    standing.by_steps = hvd.rank() == 1
    with pytest.raises(ValueError, match=r"step_mode=True on ranks \[1\], and not on the others"):
        agreement.agree_on_sync(standing, True)
    hvd.barrier()


@pytest.mark.parametrize("make, sentence", [
    (lambda model: dict(model=model), "the state has no optimizer that DistributedOptimizer"),
    (lambda model: dict(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0)), "'optimizer' of the state is a SGD that Distributed"),
    (lambda model: dict(a=distributed(model), b=torch.optim.SGD(model.parameters(), lr=1.0)), "'b' of the state is a SGD"),
])  # fmt: skip
def test_optimizers_whose_steps_are_not_known_are_refused_by_name(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        TorchState(step_mode=True, **make(torch.nn.Linear(2, 1)))
    state = made()
    with pytest.raises(ValueError, match="'optimizer' of the state is a SGD"):
        state.optimizer = torch.optim.SGD(state.model.parameters(), lr=1.0)
    hvd.barrier()


def test_an_optimizer_over_some_ranks_is_refused_by_name():
    alone = hvd.add_process_set([0])
    model = torch.nn.Linear(2, 1)
    optimizer = distributed(model, process_set=alone)
    with pytest.raises(ValueError, match="'optimizer' of the state reduces gradients over a process set"):
        TorchState(model=model, optimizer=optimizer, step_mode=True)
    hvd.remove_process_set(alone)


def test_a_handler_without_points_is_refused_by_name():
    class Text(StateHandler):
        save = restore = sync = lambda self: None

    before = get_handler_registry()
    try:
        set_handler_registry([(str, Text), *before])
        with pytest.raises(NotImplementedError, match=r"Text must define note\(\), is_unchanged\(\) and rewind\(\) for a state with step_mode=True"):
            made(word="x")
    finally:
        set_handler_registry(before)
    hvd.barrier()
