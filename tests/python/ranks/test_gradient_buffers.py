"""Gradients that are views of what is reduced train as others do."""

import pytest
import torch

import rueda.torch as hvd
from helpers import same_on_all_ranks
from test_optimizer import close, data, loss_of, make_model, part, reference, train


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def distributed(model, **options):
    return hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), gradient_as_buffer_view=True, **options)


@pytest.mark.parametrize("options", [{}, {"num_groups": 3}, {"compression": hvd.Compression.bf16}], ids=str)
def test_they_train_alike(options):
    model = make_model()
    trained = train(model, distributed(model, **options))
    tolerance = 5e-2 if "compression" in options else 1e-9
    assert all(torch.allclose(a, b, atol=tolerance) for a, b in zip(trained, reference(sgd)))
    assert all(same_on_all_ranks(parameter) for parameter in trained)


def test_passes_add_up_in_them():
    model = make_model()
    assert close(train(model, distributed(model, backward_passes_per_step=3), passes=3), reference(sgd, passes=3))


def test_they_share_memory_and_are_never_none_after_zero_grad():
    model = make_model()
    optimizer = distributed(model)
    train(model, optimizer, steps=1)
    optimizer.zero_grad()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert all(torch.equal(gradient, torch.zeros_like(gradient)) for gradient in gradients)
    assert all(gradient._base is gradients[0]._base is not None for gradient in gradients)


def test_a_gradient_that_somebody_replaced_is_taken_into_the_buffer():
    model, plain = make_model(), make_model()
    optimizer, other = distributed(model), sgd(plain.parameters())
    for step in range(3):
        model.zero_grad(set_to_none=True)
        other.zero_grad()
        rows, targets = data(step)
        loss_of(model, part(rows), part(targets)).backward()
        loss_of(plain, rows, targets).backward()
        optimizer.step()
        other.step()
    assert close(model.parameters(), plain.parameters())


def test_dtypes_have_buffers_of_their_own_and_unused_parameters_are_zero():
    wide, narrow = torch.nn.Parameter(torch.ones(3, dtype=torch.float64)), torch.nn.Parameter(torch.ones(2))
    unused = torch.nn.Parameter(torch.ones(2, 3).t())
    parameters = [wide, narrow, unused]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), gradient_as_buffer_view=True, num_groups=1)
    for _ in range(2):
        (wide.sum() + (hvd.rank() + 1) * narrow.sum()).backward()
        optimizer.step()
        for parameter in parameters:
            parameter.grad = None
    mean = (hvd.size() + 1) / 2
    assert torch.equal(wide.data, torch.full((3,), -1.0, dtype=torch.float64))
    assert torch.allclose(narrow.data, torch.full((2,), 1.0 - 2 * mean))
    assert torch.equal(unused.data, torch.ones(3, 2))


def test_sparse_gradients_become_dense_in_them():
    table = torch.nn.Embedding(5, 2, sparse=True)
    torch.nn.init.ones_(table.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=1.0), table.named_parameters(),
                                         gradient_as_buffer_view=True)  # fmt: skip
    table(torch.tensor([hvd.rank()])).sum().backward()
    optimizer.step()
    expected = torch.ones(5, 2)
    expected[: hvd.size()] -= 1.0 / hvd.size()
    assert torch.allclose(table.weight.data, expected)


def to_channels_last(model):
    model.to(memory_format=torch.channels_last)


def to_single(model):
    model.float()


def convolution():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(4, 2, 3)).double()


def own(rows):
    return rows[2 * hvd.rank() : 2 * hvd.rank() + 2]


def images(step):
    return torch.randn(hvd.size() * 2, 3, 6, 6, generator=torch.Generator().manual_seed(step), dtype=torch.float64)


@pytest.mark.parametrize("change", [to_channels_last, to_single])
def test_a_model_that_is_given_other_memory_after_the_optimizer_was_made_trains_as_before(change):
    model, plain = convolution(), convolution()
    optimizer, other = distributed(model), sgd(plain.parameters())
    for step in range(4):
        if step == 2:
            change(model)
            change(plain)
        optimizer.zero_grad()
        other.zero_grad()
        rows = images(step).to(next(plain.parameters()).dtype)
        model(own(rows)).square().mean().backward()
        plain(rows).square().mean().backward()
        optimizer.step()
        other.step()
    assert all(same_on_all_ranks(parameter) for parameter in model.parameters())
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(model.parameters(), plain.parameters()))


def test_strides_that_differ_between_ranks_are_a_mismatch_and_training_goes_on():
    model = convolution()
    if hvd.rank() == 0:
        to_channels_last(model)
    optimizer = distributed(model)
    for _ in range(2):
        model(own(images(0))).square().mean().backward()
        with pytest.raises(hvd.MismatchError, match="order of dimensions in memory differs"):
            optimizer.step()
        optimizer.zero_grad()
    to_channels_last(model)
    optimizer = distributed(model)
    model(own(images(0))).square().mean().backward()
    optimizer.step()
    assert all(same_on_all_ranks(parameter) for parameter in model.parameters())


def test_a_rank_that_joined_before_its_first_step_meets_the_others_in_the_next():
    model = make_model()
    optimizer = distributed(model)
    for number in range(2):
        if number == 1 or hvd.rank() != 0:
            train(model, optimizer, steps=1)
        last = hvd.join()
        hvd.broadcast_parameters(model.state_dict(), root_rank=last)
        optimizer.zero_grad()
    assert all(same_on_all_ranks(parameter) for parameter in model.parameters())
