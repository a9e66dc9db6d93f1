"""Autograd knows of tensors that operations in place have changed."""

import pytest
import torch

import rueda.torch as hvd
from rueda.torch import tensors

FORMS = {
    "allreduce_": lambda t: hvd.allreduce_(t, op=hvd.Sum),
    "allreduce_async_": lambda t: hvd.synchronize(hvd.allreduce_async_(t, op=hvd.Sum)),
    "grouped_allreduce_": lambda t: hvd.grouped_allreduce_([t, torch.ones(1)], op=hvd.Sum)[0],
    "grouped_allreduce_async_": lambda t: hvd.synchronize(hvd.grouped_allreduce_async_([torch.ones(1), t], op=hvd.Sum))[1],
    "broadcast_": lambda t: hvd.broadcast_(t, 1),
    "broadcast_async_": lambda t: hvd.synchronize(hvd.broadcast_async_(t, 1)),
}
ROWS = {**FORMS, "reducescatter_": lambda t: hvd.reducescatter_(t, op=hvd.Sum)}


def weight():
    """Of this rank's numbers in its loss."""
    return float(hvd.rank() + 1)


@pytest.mark.parametrize("form", ROWS)
def test_a_backward_pass_that_needs_what_was_overwritten_is_refused(form):
    leaf = torch.ones(6, requires_grad=True)
    saved = torch.full((6,), 2.0)
    loss = (leaf * saved).sum()
    before = saved._version
    ROWS[form](saved)
    assert saved._version > before
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_it_is_refused_from_the_call_on():
    leaf, saved = torch.ones(2, requires_grad=True), torch.ones(2)
    loss = (leaf * saved).sum()
    handle = hvd.allreduce_async_(saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    handle.wait()


@pytest.mark.parametrize("give", [lambda m: m.state_dict(), lambda m: m.named_parameters(), lambda m: list(m.parameters())])
def test_a_broadcast_of_parameters_is_known_too(give):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    loss = model(torch.ones(1, 3)).sum()
    hvd.broadcast_parameters(give(model), root_rank=0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    model(torch.ones(1, 3)).sum().backward()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("make", [lambda x: 2 * x, lambda x: (2 * x)[1:], lambda x: (2 * x).t()], ids=["whole", "rows", "transposed"])
def test_gradients_flow_through_a_tensor_in_the_middle_of_a_graph_as_if_nothing_had_been_done(form, make):
    leaf = torch.full((3, 3), weight(), requires_grad=True)
    middle = make(leaf)
    assert FORMS[form](middle) is middle
    expected = 4.0 if form.startswith("broadcast") else 2.0 * sum(range(1, hvd.size() + 1))
    assert torch.equal(middle.detach(), torch.full(middle.shape, expected))
    (weight() * middle).sum().backward()
    assert leaf.grad.sum() == 2.0 * weight() * middle.numel()


def test_a_loss_that_is_added_up_for_the_log_has_this_ranks_gradient():
    model = torch.nn.Linear(2, 1, bias=False)
    loss = model(torch.ones(1, 2)).sum()
    hvd.allreduce_(loss, op=hvd.Sum)
    loss.backward()
    assert model.weight.grad.tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("show", [lambda p: p, lambda p: p.view(-1), lambda p: p[0]], ids=["whole", "flat", "row"])
def test_a_leaf_that_wants_gradients_takes_the_new_numbers_as_under_no_grad(form, show):
    parameter = torch.nn.Parameter(torch.full((1, 4), weight()))
    FORMS[form](show(parameter))
    expected = 2.0 if form.startswith("broadcast") else sum(range(1, hvd.size() + 1))
    assert parameter.is_leaf and torch.equal(parameter.detach(), torch.full((1, 4), float(expected)))
    (3 * parameter).sum().backward()
    assert torch.equal(parameter.grad, torch.full((1, 4), 3.0))


@pytest.mark.parametrize("form", FORMS)
def test_without_gradients_nothing_is_recorded(form):
    with torch.no_grad():
        middle = 2 * torch.ones(3, requires_grad=True)
        FORMS[form](middle)
    assert not middle.requires_grad
    with torch.inference_mode():
        counted_by_nobody = torch.ones(3)
    FORMS[form](counted_by_nobody)


def test_a_reduce_scatter_in_place_is_refused_in_a_graph():
    leaf = torch.ones(6, requires_grad=True)
    with pytest.raises(ValueError, match=r"shape \[6\].*use reducescatter"):
        hvd.reducescatter_(2 * leaf)
    assert hvd.reducescatter_(leaf, op=hvd.Sum).tolist() == [hvd.size()] * (6 // hvd.size())


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)], ids=str)
def test_changes_are_counted_before_pytorch_2_1_as_well(shape):
    tensor = torch.ones(shape).t()
    alias = tensor.detach()
    tensors._write_nothing(alias)
    assert (tensor._version, alias._version) == (1, 1) and torch.equal(tensor, torch.ones(shape).t())
    with torch.inference_mode():
        uncounted = torch.ones(shape)
    tensors._write_nothing(uncounted)


@pytest.mark.parametrize("other", [lambda t: t.set_(torch.zeros(2)), lambda t: setattr(t, "data", torch.zeros(2))], ids=["set_", "data"])
def test_memory_that_a_tensor_gives_up_while_it_is_lent_stays_until_the_end(other):
    for _ in range(20):
        handles = []
        for _ in range(20):
            tensor = torch.ones(2)
            handles.append(hvd.allreduce_async_(tensor))
            other(tensor)
        kept = [torch.ones(2) for _ in range(100)]  # would reuse the memory if it had been freed
        for handle in handles:
            hvd.synchronize(handle)
        assert all(torch.equal(each, torch.ones(2)) for each in kept)
