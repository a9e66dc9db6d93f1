"""A new worker makes the state that its optimizer will have, before it holds the others up. Callbacks are functions."""

import copy

import pytest
import torch

import rueda.torch as hvd
from rueda.torch.elastic import first_step

KINDS = [
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}), (torch.optim.Adam, {"amsgrad": True}), (torch.optim.AdamW, {}),
    (torch.optim.NAdam, {}), (torch.optim.RAdam, {}), (torch.optim.Adamax, {}), (torch.optim.Adadelta, {}),
    (torch.optim.RMSprop, {"momentum": 0.9, "centered": True}), (torch.optim.Rprop, {}),
    (torch.optim.Adam, {"foreach": True}),
]  # fmt: skip
if hasattr(torch.optim, "Muon"):  # versions that fuse steps on the host, too
    KINDS += [(torch.optim.AdamW, {"fused": True}), (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "fused": True})]


def model():
    made = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Conv2d(2, 3, 2).to(memory_format=torch.channels_last), torch.nn.Linear(1, 1))
    made[0].bias.requires_grad_(False)
    return made


def kinds_of(optimizer):
    numbers = {parameter: number for number, parameter in enumerate(each for group in optimizer.param_groups for each in group["params"])}
    return {(numbers[parameter], name): (type(value), value.shape, value.stride(), value.dtype, value.device) if isinstance(value, torch.Tensor) else value
            for parameter, entry in optimizer.state.items() for name, value in entry.items()}  # fmt: skip


def step(optimizer):
    for group in optimizer.param_groups:
        for each in group["params"]:
            each.grad = torch.ones_like(each) if each.requires_grad else None
    optimizer.step()


@pytest.mark.parametrize("kind, options", KINDS)
def test_the_state_is_that_of_a_step_and_nothing_else_changes(kind, options):
    trained, new = model(), model()
    real, made = kind(trained.parameters(), **options), kind(new.parameters(), **options)
    steps = []
    if hasattr(made, "register_step_pre_hook"):  # PyTorch 1.13 has none
        made.register_step_pre_hook(lambda *_: steps.append(1))
    before, groups = copy.deepcopy(new.state_dict()), copy.deepcopy(made.state_dict()["param_groups"])
    assert first_step.make_state(made)
    step(real)
    assert kinds_of(made).keys() == kinds_of(real).keys() and kinds_of(made)
    assert all(mine == theirs for mine, theirs in zip(kinds_of(made).values(), kinds_of(real).values()) if isinstance(mine, tuple))
    assert all(torch.equal(new.state_dict()[name], tensor) for name, tensor in before.items()) and not steps
    assert made.state_dict()["param_groups"] == groups and all(each.grad is None for each in new.parameters())
    assert not first_step.make_state(made)  # it has one
    made.load_state_dict(real.state_dict())
    step(made)
    assert kinds_of(made).keys() == kinds_of(real).keys()


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this PyTorch has no Muon")
def test_an_optimizer_of_matrices_gets_its_state_too():
    made = torch.optim.Muon([torch.nn.Parameter(torch.ones(3, 2))])
    assert first_step.make_state(made) and [name for _, name in kinds_of(made)] == ["momentum_buffer"]


def test_an_optimizer_that_has_a_state_from_the_start_keeps_it():
    made = torch.optim.Adagrad(model().parameters(), initial_accumulator_value=3)
    assert not first_step.make_state(made) and kinds_of(made) and all(entry["sum"].eq(3).all() for entry in made.state.values())


def test_an_optimizer_whose_step_is_not_known_is_left_alone():
    class Mine(torch.optim.SGD):
        pass

    for made in (Mine(model().parameters(), lr=0.1, momentum=0.9), torch.optim.ASGD(model().parameters()), torch.optim.LBFGS(model().parameters()), torch.optim.SparseAdam(model().parameters()),
                 torch.optim.SGD(model().parameters(), lr=0.1)):  # fmt: skip
        assert not first_step.make_state(made) and not made.state


@pytest.mark.parametrize("wrong", [list, 3, [list, 3]])
@pytest.mark.parametrize("kind", ["reset", "warm_up"])
def test_callbacks_that_are_no_list_of_functions_are_refused_by_name(kind, wrong):
    state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank)
    with pytest.raises(TypeError, match=rf"^register_{kind}_callbacks\(.*\): give a list of functions without arguments"):
        getattr(state, f"register_{kind}_callbacks")(wrong)
