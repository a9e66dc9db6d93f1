"""Hooks do in C what gradients need as a rule, and leave to Python what differs from the gradient before."""

import copy
import gc
import io
import weakref

import pytest
import torch

import rueda.torch as hvd
from rueda import _hooks
from rueda.torch.reducer import GradientReducer


def mean():
    return (hvd.size() + 1) / 2


def make(weights, **options):
    named = [(f"weight.{number}", weight) for number, weight in enumerate(weights)]
    return hvd.DistributedOptimizer(torch.optim.SGD(weights, lr=1.0), named, **options)


def backward(weights):
    sum((hvd.rank() + 1) * weight.sum() for weight in weights).backward()


def step(weights, optimizer):
    """Runs one step, checks that its gradients are the mean over ranks, and removes them."""
    backward(weights)
    optimizer.synchronize()
    for weight in weights:
        assert torch.equal(weight.grad, torch.full_like(weight, mean()))
        weight.grad = None


@pytest.fixture
def weights():
    return [torch.nn.Parameter(torch.ones(number % 4 + 1, 3)) for number in range(100)]


@pytest.fixture
def unusual(monkeypatch):
    """The names of the gradients that hooks have left to Python."""
    left = []

    def note(reducer, member, gradient, called=GradientReducer._enqueue_unusual):
        left.append(member.name.decode().rpartition("gradient.")[2])
        called(reducer, member, gradient)

    monkeypatch.setattr(GradientReducer, "_enqueue_unusual", note)
    return left


def test_a_gradient_like_the_one_before_is_not_left_to_python(weights, unusual):
    optimizer = make(weights)
    step(weights, optimizer)
    assert len(unusual) == len(weights)
    unusual.clear()
    for _ in range(3):
        step(weights, optimizer)
    assert unusual == []


def to_double(weight):
    weight.data = weight.data.double()


def to_another_count(weight):
    weight.data = torch.ones(7, 5)


def to_other_strides(weight):
    weight.data = torch.ones(weight.shape[::-1]).t()


KEEPS_ACCUMULATOR = pytest.mark.skipif(not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"),
                                       reason="the fallback's hook keeps what expects the shape as it was")  # fmt: skip


@pytest.mark.parametrize("change", [to_double, pytest.param(to_another_count, marks=KEEPS_ACCUMULATOR), to_other_strides])
def test_a_gradient_unlike_the_one_before_is_reduced_as_it_is(weights, unusual, change):
    optimizer = make(weights)
    step(weights, optimizer)
    before = weights[5].detach().clone()
    unusual.clear()
    change(weights[5])
    step(weights, optimizer)
    step(weights, optimizer)
    assert set(unusual) == {"weight.5"}
    weights[5].data = before
    step(weights, optimizer)


@KEEPS_ACCUMULATOR
def test_a_gradient_of_as_many_elements_and_another_shape_is_reduced(weights):
    optimizer = make(weights)
    step(weights, optimizer)
    weights[3].data = torch.ones(3, 4)
    step(weights, optimizer)


def test_a_parameter_that_lies_elsewhere_is_reduced_there(weights, unusual):
    optimizer = make(weights)
    step(weights, optimizer)
    unusual.clear()
    addresses = [weight.data_ptr() for weight in weights]
    for weight in weights:
        weight.data = weight.data.clone()
    assert all(weight.data_ptr() != address for weight, address in zip(weights, addresses))
    step(weights, optimizer)
    assert unusual == []


def test_a_gradient_that_becomes_sparse_and_dense_again_is_reduced():
    weight = torch.nn.Parameter(torch.ones(5, 2))
    optimizer = make([weight])
    expected = torch.zeros(5, 2)
    expected[: hvd.size()] = 1.0 / hvd.size()
    for sparse in (False, True, False, True):
        torch.nn.functional.embedding(torch.tensor([hvd.rank()]), weight, sparse=sparse).sum().backward()
        optimizer.synchronize()
        assert weight.grad.is_sparse == sparse
        assert torch.allclose(weight.grad.to_dense(), expected)
        weight.grad = None


@pytest.mark.skipif(not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"), reason="there is no such hook")
def test_a_gradient_that_another_hook_replaced_is_the_one_reduced(weights):
    weights[7].register_post_accumulate_grad_hook(lambda weight: setattr(weight, "grad", 2 * weight.grad))
    optimizer = make(weights)
    for _ in range(2):
        backward(weights)
        optimizer.synchronize()
        assert torch.equal(weights[7].grad, torch.full_like(weights[7], 2 * mean()))
        assert torch.equal(weights[8].grad, torch.full_like(weights[8], mean()))
        for weight in weights:
            weight.grad = None


@pytest.mark.parametrize("options", [{}, {"num_groups": 3}, {"gradient_as_buffer_view": True}], ids=str)
def test_a_pass_too_many_is_refused_by_name_and_does_no_harm(weights, options):
    optimizer = make(weights, backward_passes_per_step=2, **options)
    for _ in range(2):
        backward(weights)
        backward(weights)
        with pytest.raises(AssertionError, match="weight.*more than 2 backward passes"):
            backward(weights[:1])
        optimizer.synchronize()
        for weight in weights[1:]:
            assert torch.equal(weight.grad, torch.full_like(weight, 2 * mean()))
        optimizer.zero_grad()


def test_what_python_raises_leaves_the_backward_pass(weights, monkeypatch):
    optimizer = make(weights)
    step(weights, optimizer)

    def fail(*_):
        raise KeyError("no batch today")

    with monkeypatch.context() as patched:
        patched.setattr(GradientReducer, "_begin", fail)
        with pytest.raises(KeyError, match="no batch today"):
            backward(weights[:1])
    optimizer.synchronize()
    assert torch.equal(weights[0].grad, torch.full_like(weights[0], mean()))
    for weight in weights:
        weight.grad = None
    step(weights, optimizer)


def test_another_session_between_two_steps_is_noticed(weights, unusual):
    optimizer = make(weights)
    step(weights, optimizer)
    hvd.shutdown()
    hvd.init()
    unusual.clear()
    step(weights, optimizer)
    assert len(unusual) == len(weights)
    loss = (hvd.rank() + 1) * weights[0].sum()
    hvd.shutdown()
    with pytest.raises(hvd.HorovodInternalError, match="init"):
        loss.backward()
    hvd.init()
    optimizer.synchronize()
    assert torch.equal(weights[0].grad, torch.full_like(weights[0], mean()))


def test_another_session_between_two_gradients_of_a_step_is_noticed(weights):
    optimizer = make(weights)
    step(weights, optimizer)
    backward(weights[:10])
    hvd.shutdown()
    hvd.init()
    backward(weights[10:])
    optimizer.synchronize()
    assert all(torch.equal(weight.grad, torch.full_like(weight, mean())) for weight in weights)


def test_gradients_are_given_up_when_the_step_is_over(weights):
    optimizer = make(weights)
    backward(weights)
    gradient = weakref.ref(weights[0].grad)
    optimizer.synchronize()
    weights[0].grad = None
    assert gradient() is None
    for weight in weights:
        weight.grad = None


@pytest.mark.parametrize("used", [100, 99, 1], ids="{} of 100 gradients".format)
def test_an_optimizer_that_is_freed_within_a_step_is_gone_and_what_is_in_flight_ends(weights, used):
    optimizer = make(weights)
    step(weights, optimizer)
    backward(weights[:used])
    reducer, weight = weakref.ref(optimizer._reducer), weakref.ref(weights[0])
    optimizer._reducer.detach()  # what a parameter's hooks refer to PyTorch does not tell the garbage collector
    weights.clear()
    del optimizer
    gc.collect()
    assert reducer() is None and weight() is None
    assert float(hvd.allreduce(torch.ones(1), op=hvd.Sum)) == hvd.size()


def test_a_model_with_hooks_is_copied_and_saved_without_them():
    model = torch.nn.Linear(3, 2)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        for _ in range(2):
            other(torch.ones(1, 3) * (hvd.rank() + 1)).sum().backward()
        assert torch.equal(other.weight.grad, torch.full((2, 3), 2.0 * (hvd.rank() + 1)))
    assert not optimizer._reducer.in_step


def test_a_hook_knows_its_optimizer_and_its_group(weights):
    bare = _hooks.Hook.__new__(_hooks.Hook)
    with pytest.raises(RuntimeError, match="no optimizer"):
        bare()
    with pytest.raises(TypeError, match="Step"):
        _hooks.Hook(None, weights[0])
    with pytest.raises(TypeError, match="Group"):
        bare.group = 1
    with pytest.raises(TypeError, match="Hook"):
        _hooks.Step().enqueue(bare)
    hook = _hooks.Hook(_hooks.Step(), weights[0])
    with pytest.raises(RuntimeError, match="once"):
        hook.__init__(_hooks.Step(), weights[1])
