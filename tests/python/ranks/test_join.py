"""Ranks that have no more to give join, and the others go on without them."""

import pytest
import torch

import rueda.torch as hvd
from helpers import same_on_all_ranks


def contributors(step):
    """The ranks that take part in a step: rank r has r + 1 of them."""
    return [rank for rank in range(hvd.size()) if rank >= step]


FORMS = {
    hvd.Sum: lambda values, size: sum(values),
    hvd.Average: lambda values, size: sum(values) / size,
    hvd.Min: lambda values, size: min(values),
    hvd.Max: lambda values, size: max(values),
    hvd.Product: lambda values, size: torch.tensor(values).prod().item(),
}


@pytest.mark.parametrize("name", ["uneven", None])
@pytest.mark.parametrize("op", FORMS)
def test_who_has_joined_counts_as_nothing(op, name):
    for step in range(hvd.rank() + 1):
        reduced = hvd.allreduce(torch.full((3,), hvd.rank() + 2.0), name=name, op=op)
        expected = FORMS[op]([rank + 2.0 for rank in contributors(step)], hvd.size())
        assert torch.allclose(reduced, torch.full((3,), expected))
        hvd.barrier()
    assert hvd.join() == hvd.size() - 1, "its last step needs all others to have joined"
    assert same_on_all_ranks(torch.ones(2)), "operations without a name still meet"


def test_a_broadcast_fails_on_the_others_and_names_who_has_joined():
    if hvd.rank() == 0:
        assert hvd.join() in range(1, hvd.size())
    else:
        with pytest.raises(hvd.HorovodInternalError, match="rank 0"):
            hvd.broadcast(torch.ones(1), 1, name="without rank 0")
        with pytest.raises(hvd.HorovodInternalError, match="rank 0"):
            hvd.allgather(torch.ones(1), name="rows without rank 0")
        hvd.join()
    assert float(hvd.allreduce(torch.ones(1), op=hvd.Sum)) == hvd.size()


def test_a_join_is_asynchronous_and_until_its_end_nothing_can_be_enqueued():
    others = hvd.add_process_set(range(hvd.size()))
    if hvd.rank() == 0:
        joining = hvd.join_async()
        with pytest.raises(ValueError, match="join"):
            hvd.allreduce(torch.ones(1))
        assert not hvd.poll(joining)
    hvd.barrier(process_set=others)
    if hvd.rank() != 0:
        joining = hvd.join_async(device=-1)
    assert hvd.synchronize(joining) in range(1, hvd.size())
    hvd.barrier(process_set=others)
    assert hvd.remove_process_set(others)


def test_a_join_is_of_one_process_set():
    pair = hvd.add_process_set([0, 1])
    if hvd.rank() == 0:
        assert hvd.join(process_set=pair) == 1
    elif hvd.rank() == 1:
        for _ in range(3):
            assert float(hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=pair)) == 1.0
        assert hvd.join(process_set=pair) == 1
    hvd.barrier()
    assert hvd.remove_process_set(pair)


@pytest.mark.parametrize("options", [{}, {"num_groups": 2}, {"gradient_as_buffer_view": True}], ids=str)
def test_training_with_uneven_numbers_of_batches_is_the_mean_over_all_ranks(options):
    parameters = [torch.nn.Parameter(torch.zeros(3)) for _ in range(4)]
    named = [(str(number), parameter) for number, parameter in enumerate(parameters)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), named, **options)
    for _ in range(hvd.rank() + 1):
        optimizer.zero_grad()
        sum(((hvd.rank() + 1) * parameter).sum() for parameter in parameters).backward()
        optimizer.step()
    last = hvd.join()
    hvd.broadcast_parameters(dict(named), root_rank=last)
    total = sum(sum(rank + 1 for rank in contributors(step)) for step in range(hvd.size()))
    for parameter in parameters:
        assert torch.allclose(parameter.data, torch.full((3,), -total / hvd.size()))
