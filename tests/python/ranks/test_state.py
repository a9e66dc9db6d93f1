"""Parameters, optimizer state and objects are the root's on every rank."""

import collections

import pytest
import torch

import rueda.torch as hvd
from helpers import same_on_all_ranks

OPTIMIZERS = {
    name: factory
    for name, factory in vars(torch.optim).items()
    if isinstance(factory, type) and issubclass(factory, torch.optim.Optimizer) and factory is not torch.optim.Optimizer
}


def model_of_this_rank():
    torch.manual_seed(100 + hvd.rank())
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))


@pytest.mark.parametrize("form", ["state_dict", "named_parameters", "list", "nested"])
def test_parameters_are_the_root_s(form):
    model = model_of_this_rank()
    given = {
        "state_dict": model.state_dict,
        "named_parameters": model.named_parameters,
        "list": lambda: list(model.named_parameters()),
        "nested": lambda: {"all": [list(model.parameters())], "step": 3, "nothing": None},
    }[form]()
    hvd.broadcast_parameters(given, root_rank=1)
    assert all(same_on_all_ranks(parameter) for parameter in model.parameters())
    torch.manual_seed(101)
    assert torch.equal(model[0].weight, torch.nn.Linear(4, 3).weight), "they are those of rank 1"


def test_what_is_not_made_of_tensors_is_refused():
    for value, kind in [(object(), "object"), ((tensor for tensor in ()), "generator"), ({"b": b"bytes"}, "bytes")]:
        with pytest.raises(ValueError, match=rf"parameter\.a.* is a {kind}; only tensors in dicts, lists and tuples"):
            hvd.broadcast_parameters({"a": value}, root_rank=0)
    with pytest.raises(ValueError, match="params is a int; give its state_dict"):
        hvd.broadcast_parameters(5, root_rank=0)


def test_a_tensor_with_gaps_is_broadcast_too():
    whole = torch.full((4, 6), float(hvd.rank()))
    hvd.broadcast_parameters({"gappy": whole[:, ::2]}, root_rank=1)
    assert torch.equal(whole[:, ::2], torch.ones(4, 3))
    assert torch.equal(whole[:, 1::2], torch.full((4, 3), float(hvd.rank()))), "what lies between is left alone"


def ordered(order, count=2):
    return torch.arange(24.0 * count).reshape(count, 4, 3, 2).mul(hvd.rank() + 1).to(memory_format=order)


def test_ranks_may_have_dimensions_in_different_orders_in_memory():
    mine = ordered(torch.channels_last if hvd.rank() == 1 else torch.contiguous_format)
    strides = mine.stride()
    hvd.broadcast_parameters({"weight": mine}, root_rank=1)
    assert mine.stride() == strides and torch.equal(mine, torch.arange(48.0).reshape(2, 4, 3, 2) * 2)


@pytest.mark.parametrize("order", [torch.channels_last, torch.contiguous_format])
def test_a_state_that_only_the_root_has_comes_in_the_root_s_order(order):
    parameter = torch.nn.Parameter(torch.zeros(2, 4, 3, 2).to(memory_format=torch.channels_last))
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.5)
    if hvd.rank() == 1:
        optimizer.state[parameter] = {"momentum_buffer": ordered(order)}
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    momentum = optimizer.state[parameter]["momentum_buffer"]
    assert momentum.is_contiguous(memory_format=order) and torch.equal(momentum, torch.arange(48.0).reshape(2, 4, 3, 2) * 2)


def test_a_state_in_another_order_than_the_root_s_takes_its_numbers():
    parameter = torch.nn.Parameter(torch.zeros(2, 4, 3, 2))
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.5)
    optimizer.state[parameter] = {"momentum_buffer": ordered(torch.channels_last if hvd.rank() == 1 else torch.contiguous_format)}
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    assert torch.equal(optimizer.state[parameter]["momentum_buffer"], torch.arange(48.0).reshape(2, 4, 3, 2) * 2)


def objects():
    return [None, 17, "text", {"a": [1, 2, {"b": 3}]}, b"x" * 100000, collections.OrderedDict(z=1), torch.arange(3)]


@pytest.mark.parametrize("number", range(7))
def test_an_object_is_the_root_s(number):
    mine = objects()[number] if hvd.rank() == 1 else "mine"
    got = hvd.broadcast_object(mine, root_rank=1, name="object")
    assert repr(got) == repr(objects()[number])


class Unwilling:
    def __reduce__(self):
        raise RuntimeError("not this one")


@pytest.mark.skipif(torch.__version__ < (2,), reason="before 2.0 the host is the default device")
def test_objects_travel_whatever_the_default_device_is():
    with torch.device("meta"):
        assert hvd.broadcast_object({"from": hvd.rank()}, 1) == {"from": 1}
        assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))


@pytest.mark.parametrize("what", [Unwilling, lambda: (value for value in ())], ids=["RuntimeError", "TypeError"])
def test_an_object_that_cannot_be_pickled_is_told_on_all_ranks(what):
    bad = what()
    sentence = f"rank 1 gave a {type(bad).__name__} that cannot be pickled: "
    with pytest.raises(ValueError, match="broadcast_object.*" + sentence):
        hvd.broadcast_object(bad if hvd.rank() == 1 else 3, root_rank=1)
    with pytest.raises(ValueError, match="allgather_object.*" + sentence):
        hvd.allgather_object(bad if hvd.rank() == 1 else 3)
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))


def test_gathered_objects_of_different_sizes_are_taken_apart_without_an_object_for_each_byte(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "tolist", None, raising=False)
    own = {"rank": hvd.rank(), "data": bytes([hvd.rank()]) * (1 + 300000 * hvd.rank())}
    every = hvd.allgather_object(own)
    assert [(each["rank"], len(each["data"])) for each in every] == [(rank, 1 + 300000 * rank) for rank in range(hvd.size())]
    assert all(set(each["data"]) == {each["rank"]} for each in every)


def step(name, optimizer, parameters):
    """One step that reduces the sum of the parameters' squares."""

    def closure():
        optimizer.zero_grad()
        loss = sum((parameter * parameter).sum() for parameter in parameters)
        loss.backward()
        if name == "SparseAdam":
            for parameter in parameters:
                parameter.grad = parameter.grad.to_sparse()
        return loss

    optimizer.step(closure)


def stepped(name, model, steps):
    """An optimizer of this class over the model, after some steps."""
    parameters = list(model.parameters())
    if name == "Muon":
        parameters = [parameter for parameter in parameters if parameter.dim() == 2]
    options = {} if name in ("Adafactor", "Adadelta", "Rprop") else {"lr": 0.01 * (1 + hvd.rank())}
    optimizer = OPTIMIZERS[name](parameters, **options)
    for _ in range(steps):
        step(name, optimizer, parameters)
    return optimizer


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from tensors_in(value[key])
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from tensors_in(entry)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_an_optimizer_s_state_is_the_root_s_without_a_step(name):
    optimizer = stepped(name, model_of_this_rank(), steps=2 if hvd.rank() == 1 else 0)
    before = [parameter.detach().clone() for group in optimizer.param_groups for parameter in group["params"]]
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    after = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    assert all(torch.equal(old, new) for old, new in zip(before, after)), "parameters are left alone"
    state = optimizer.state_dict()
    assert len(hvd.broadcast_object(sorted(state["state"]), 1)) == len(state["state"])
    for tensor in tensors_in(state):
        assert same_on_all_ranks(tensor)
    groups = [{key: value for key, value in group.items() if not torch.is_tensor(value)} for group in state["param_groups"]]
    assert hvd.broadcast_object(groups, 1) == groups
    hvd.broadcast_parameters(after, root_rank=1)
    step(name, optimizer, after)  # all ranks have the root's parameters and state, so one step gives all of them the same
    assert any(not torch.equal(old, new) for old, new in zip(before, after)), "the step changes parameters"
    assert all(same_on_all_ranks(parameter) for parameter in after)


def test_a_learning_rate_that_is_a_tensor_is_broadcast():
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([parameter], lr=torch.tensor(0.5 if hvd.rank() == 1 else 0.1))
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    assert float(optimizer.param_groups[0]["lr"]) == 0.5


def test_a_state_that_the_root_does_not_have_goes():
    optimizer = stepped("Adam", model_of_this_rank(), steps=0 if hvd.rank() == 1 else 2)
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    assert optimizer.state_dict()["state"] == {}


class Counting(torch.optim.SGD):
    """Has a count and a mean of its own in its state_dict()."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen, self.mean = hvd.rank(), torch.full((2,), float(hvd.rank()))

    def state_dict(self):
        return {**super().state_dict(), "seen": self.seen, "of its own": {"mean": self.mean}}

    def load_state_dict(self, state):
        self.seen, self.mean = state["seen"], state["of its own"]["mean"]
        super().load_state_dict({key: state[key] for key in ("state", "param_groups")})


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
@pytest.mark.parametrize("distributed", [False, True])
def test_what_an_optimizer_adds_to_its_state_dict_is_the_root_s(distributed):
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = Counting([parameter], lr=0.5, momentum=0.5)
    if hvd.rank() == 1:
        step("Counting", optimizer, [parameter])
    early = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    if distributed:
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=[("parameter", parameter)])
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    assert (optimizer.seen, optimizer.mean.tolist()) == (1, [1.0, 1.0])
    assert optimizer.state[parameter]["momentum_buffer"].tolist() == [2.0, 2.0]
    early.step()
    assert optimizer.param_groups[0]["lr"] == 0.25, "a scheduler still refers to the groups"


def test_a_state_of_more_digits_than_its_parameters_stays_so():
    parameter = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    optimizer = Counting([parameter], lr=0.5)
    if hvd.rank() == 1:
        optimizer.state[parameter]["precise"] = torch.full((2,), 1.0 + 2.0**-20)
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    assert optimizer.state[parameter]["precise"].tolist() == [1.0 + 2.0**-20] * 2


def test_parameters_that_had_no_gradient_have_zeros_after_the_state_was_broadcast():
    model = model_of_this_rank()
    model[2].bias.requires_grad_(False)
    model[0].weight.grad = torch.full((3, 4), 2.0)
    optimizer = torch.optim.Adam(model.parameters())
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    assert torch.equal(model[0].weight.grad, torch.full((3, 4), 2.0)) and model[2].bias.grad is None
    for parameter in [model[0].bias, *model[1].parameters(), model[2].weight]:
        assert torch.equal(parameter.grad, torch.zeros_like(parameter))


def test_parameters_of_an_optimizer_for_sparse_gradients_have_none_after_the_state_was_broadcast():
    table = torch.nn.Embedding(5, 2, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters())
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    table(torch.tensor([1])).sum().backward()
    optimizer.step()
