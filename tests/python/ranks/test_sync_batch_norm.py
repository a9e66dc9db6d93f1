"""SyncBatchNorm is BatchNorm over the joined batch."""

import pytest
import torch

import rueda.torch as hvd


def batches(shape, uneven):
    """Every rank's batch; uneven: rank r has r rows more."""
    generator = torch.Generator().manual_seed(1)
    rows = [shape[0] + (rank if uneven else 0) for rank in range(hvd.size())]
    return [torch.randn(count, *shape[1:], generator=generator, dtype=torch.float64) * 3 + 50 for count in rows]


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 4, 4), (1, 3, 2, 2, 2)], ids=str)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_forward_backward_and_statistics_are_equal(shape, affine, momentum):
    every = batches(shape, uneven=True)
    kind = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d, 5: torch.nn.BatchNorm3d}[len(shape)]
    plain = kind(3, momentum=momentum, affine=affine).double()
    ours = hvd.SyncBatchNorm(3, momentum=momentum, affine=affine).double()
    if affine:
        for layer in (plain, ours):
            torch.nn.init.constant_(layer.weight, 1.5)
            torch.nn.init.constant_(layer.bias, -0.5)
    joined = torch.cat(every).requires_grad_()
    mine = every[hvd.rank()].clone().requires_grad_()
    for _ in range(2):
        expected, got = plain(joined), ours(mine)
    first = sum(len(batch) for batch in every[: hvd.rank()])
    rows = slice(first, first + len(mine))
    assert torch.allclose(got, expected[rows])
    expected.pow(3).sum().backward()
    got.pow(3).sum().backward()
    assert torch.allclose(mine.grad, joined.grad[rows], atol=1e-6)
    assert torch.allclose(ours.running_mean, plain.running_mean)
    assert torch.allclose(ours.running_var, plain.running_var)
    assert ours.num_batches_tracked == plain.num_batches_tracked
    if affine:
        assert torch.allclose(hvd.allreduce(ours.weight.grad, op=hvd.Sum), plain.weight.grad)
        assert torch.allclose(hvd.allreduce(ours.bias.grad, op=hvd.Sum), plain.bias.grad)


def test_in_evaluation_it_uses_what_it_has_learnt():
    ours = hvd.SyncBatchNorm(2).double()
    ours(batches((3, 2), uneven=False)[hvd.rank()])
    ours.eval()
    rows = torch.full((2, 2), float(hvd.rank()), dtype=torch.float64)
    expected = (rows - ours.running_mean) / torch.sqrt(ours.running_var + ours.eps)
    assert torch.allclose(ours(rows), expected)


def test_half_precision_stays_half_and_the_backward_pass_needs_no_wider_copy_of_the_batch():
    ours, batch, kept = hvd.SyncBatchNorm(2), torch.randn(4, 2).bfloat16().requires_grad_(), []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        assert ours(batch).dtype == torch.bfloat16
    assert [tensor.data_ptr() for tensor in kept if tensor.numel() >= batch.numel()] == [batch.data_ptr()]


@pytest.mark.parametrize(
    "input, error, says",
    [
        (torch.ones(2), ValueError, r"at least 2D input \(got 1D input\)"),
        (torch.ones(2, 0), ValueError, "channels should be non-zero"),
        (torch.ones(4, 3), RuntimeError, "running_mean should contain 3 elements not 2"),
        (torch.ones(4, 2, dtype=torch.int32), ValueError, "floating-point.*int32"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"affine": False, "track_running_stats": False}], ids=["affine", "bare"])
def test_an_input_of_another_shape_or_kind_is_refused_before_anything_travels(input, error, says, options):
    if hvd.rank() == 0:
        with pytest.raises(error, match=says):
            hvd.SyncBatchNorm(2, **options)(input)


def test_one_value_per_channel_on_all_ranks_together_is_refused_on_all():
    ours = hvd.SyncBatchNorm(2)
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        ours(torch.ones(1 if hvd.rank() == 1 else 0, 2))
    assert ours(torch.ones(0, 2)).shape == (0, 2)  # none at all
    assert ours.running_mean.tolist() == [0.0, 0.0] and ours.num_batches_tracked == 0
    assert ours(torch.ones(1, 2)).shape == (1, 2)


@pytest.mark.parametrize("affine", [True, False])
def test_a_penalty_on_gradients_goes_through_it_as_through_batch_norm(affine):
    every = [batch - 50 for batch in batches((4, 3), uneven=True)]
    first = sum(len(batch) for batch in every[: hvd.rank()])
    rows = slice(first, first + len(every[hvd.rank()]))
    found = {}
    for name, layer, given in (("joined", torch.nn.BatchNorm1d(3, affine=affine), torch.cat(every)),
                               ("ours", hvd.SyncBatchNorm(3, affine=affine), every[hvd.rank()])):  # fmt: skip
        torch.manual_seed(7)
        critic = torch.nn.Sequential(torch.nn.Linear(3, 3), layer, torch.nn.Tanh(), torch.nn.Linear(3, 1)).double()
        given = given.clone().requires_grad_()
        (slope,) = torch.autograd.grad(critic(given).sum(), given, create_graph=True)
        penalty = ((slope.norm(dim=1) - 1) ** 2).sum()
        penalty.backward()
        found[name] = penalty, slope, given.grad, [parameter.grad for parameter in critic.parameters() if parameter.grad is not None]
    assert torch.allclose(hvd.allreduce(found["ours"][0].detach(), op=hvd.Sum), found["joined"][0])
    for which in (1, 2):
        assert torch.allclose(found["ours"][which], found["joined"][which][rows], atol=1e-8)
    for mine, joined in zip(found["ours"][3], found["joined"][3]):
        assert torch.allclose(hvd.allreduce(mine, op=hvd.Sum), joined, atol=1e-8)
