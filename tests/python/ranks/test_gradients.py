"""Gradients through collectives: a reduction's are those of one process that computes every rank's loss; those of a
broadcast, an all-gather and a reduce-scatter are averages over the ranks."""

import pytest
import torch

import rueda.torch as hvd
from helpers import value


def weights(rank):
    """What each rank multiplies its output with before it sums it up to its loss."""
    return value(rank + 1, (6,), torch.float64)


def total_of_weights():
    return torch.stack([weights(rank) for rank in range(hvd.size())]).sum(0)


def gradient_of(collective, shape=(6,)):
    tensor = value(hvd.rank(), shape, torch.float64).requires_grad_()
    (collective(tensor) * weights(hvd.rank())).sum().backward()
    return tensor.grad


@pytest.mark.parametrize("op, factor", [(hvd.Sum, 1.0), (hvd.Average, None)])
def test_of_an_allreduce(op, factor):
    factor = factor or 1.0 / hvd.size()
    assert torch.allclose(gradient_of(lambda t: hvd.allreduce(t, op=op)), total_of_weights() * factor)
    scaled = gradient_of(lambda t: hvd.allreduce(t, op=op, name="grad.scaled", prescale_factor=0.5, postscale_factor=3.0))
    assert torch.allclose(scaled, total_of_weights() * factor * 1.5)


def test_of_a_grouped_allreduce():
    both = gradient_of(lambda t: torch.cat(hvd.grouped_allreduce([t[:2], t[2:]], op=hvd.Sum)))
    assert torch.allclose(both, total_of_weights())


def test_of_a_compressed_allreduce():
    tensor = value(hvd.rank(), (6,), torch.float32).requires_grad_()
    hvd.allreduce(tensor, op=hvd.Sum, compression=hvd.Compression.fp16).sum().backward()
    assert torch.equal(tensor.grad, torch.full((6,), float(hvd.size())))


@pytest.mark.parametrize("root", [0, 1])
def test_twice_of_a_broadcast(root):
    given = torch.full((2,), float(hvd.rank() + 1), requires_grad=True)
    (slope,) = torch.autograd.grad(hvd.broadcast(given, root).pow(3).sum(), given, create_graph=True)
    slope.square().sum().backward()  # of (3 * x * x) ** 2 on the root and of 0 elsewhere, averaged
    wanted = 4 * 3**2 * float(root + 1) ** 3 / hvd.size() if hvd.rank() == root else 0.0
    assert torch.allclose(given.grad, torch.full((2,), wanted))


@pytest.mark.parametrize("root", [0, 1])
def test_of_a_broadcast(root):
    expected = total_of_weights() / hvd.size() if hvd.rank() == root else torch.zeros(6, dtype=torch.float64)
    assert torch.allclose(gradient_of(lambda t: hvd.broadcast(t, root)), expected)


def test_a_gradient_of_a_gradient_flows():
    tensor = value(hvd.rank(), (3,), torch.float64).requires_grad_()
    reduced = hvd.allreduce(tensor * tensor, op=hvd.Sum)
    (gradient,) = torch.autograd.grad(reduced.sum(), tensor, create_graph=True)
    gradient.sum().backward()
    assert torch.allclose(tensor.grad, torch.full((3,), 2.0 * hvd.size(), dtype=torch.float64))


def test_a_minimum_has_no_gradient():
    tensor = torch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="has a gradient only with op=Average or op=Sum"):
        hvd.allreduce(tensor, op=hvd.Min).sum().backward()


def test_without_gradients_nothing_is_recorded():
    tensor = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert not hvd.allreduce(tensor).requires_grad


@pytest.mark.parametrize("groups", [0, 1])
def test_a_gradient_that_is_conjugated_lazily_on_one_rank_is_reduced_as_it_is_shown(groups):
    weight = torch.nn.Parameter(torch.tensor([1 + 2j, 3j]))
    factor = torch.tensor([1 + 1j, 2 - 1j])
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=0.1), [("w", weight)], op=hvd.Sum, num_groups=groups)
    for _ in range(2):
        optimizer.zero_grad()
        (((weight.conj() if hvd.rank() == 0 else weight) * factor).real.sum()).backward()
        optimizer.synchronize()
        assert torch.allclose(weight.grad, factor + (hvd.size() - 1) * factor.conj())
