"""Collectives of rows match a formula, even if ranks have different numbers of rows, or none."""

import numpy
import pytest
import torch

import rueda.torch as hvd
from helpers import DTYPES, FLOATS, expected, value

ALL = DTYPES + [torch.complex64]


def gathered(rows_of, tail, dtype):
    return torch.cat([value(rank, (rows_of(rank), *tail), dtype) for rank in range(hvd.size())])


ROWS = {"same": lambda rank: 3, "rising": lambda rank: rank, "one": lambda rank: int(rank == 1), "none": lambda rank: 0}

GATHERS = {
    "allgather": lambda t: hvd.allgather(t),
    "allgather_async": lambda t: hvd.synchronize(hvd.allgather_async(t)),
    "grouped_allgather": lambda t: hvd.grouped_allgather([t[:0], t])[1],
    "grouped_allgather_async": lambda t: hvd.synchronize(hvd.grouped_allgather_async([t, t]))[0],
}


@pytest.mark.parametrize("form", GATHERS)
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_an_allgather_gives_the_rows_of_all_ranks(form, dtype):
    for rows_of in ROWS.values():
        for tail in [(), (2,), (2, 3)]:
            mine = value(hvd.rank(), (rows_of(hvd.rank()), *tail), dtype)
            assert torch.equal(GATHERS[form](mine), gathered(rows_of, tail, dtype))


def test_a_scalar_is_one_row():
    assert hvd.allgather(torch.tensor(float(hvd.rank()))).tolist() == list(map(float, range(hvd.size())))


def test_an_output_outlives_its_handle_and_may_be_written():
    output = hvd.allgather(torch.full((1000,), float(hvd.rank())))
    view = output.view(hvd.size(), -1)[1]
    del output
    hvd.allgather(torch.full((1000,), -1.0))
    view += 1
    assert torch.equal(view, torch.full((1000,), 2.0))


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_an_alltoall_gives_each_rank_its_rows(dtype):
    size, rank = hvd.size(), hvd.rank()
    whole = [value(sender, (2 * size, 3), dtype) for sender in range(size)]
    even = torch.cat([rows[2 * rank : 2 * rank + 2] for rows in whole])
    assert torch.equal(hvd.alltoall(whole[rank]), even)
    assert torch.equal(hvd.synchronize(hvd.alltoall_async(whole[rank])), even)
    # Rank s sends r + s rows to rank r.
    total = size * rank + sum(range(size))
    splits = [receiver + rank for receiver in range(size)]
    output, received = hvd.alltoall(value(rank, (total, 2), dtype), torch.tensor(splits))
    assert received.tolist() == [rank + sender for sender in range(size)]
    parts = [value(sender, (size * sender + sum(range(size)), 2), dtype).split([r + sender for r in range(size)]) for sender in range(size)]
    assert torch.equal(output, torch.cat([pieces[rank] for pieces in parts]))
    output, received = hvd.synchronize(hvd.alltoall_async(value(rank, (total, 2), dtype), splits))
    assert torch.equal(output, torch.cat([pieces[rank] for pieces in parts]))


def own(whole):
    """This rank's rows of what is dealt out."""
    return whole.tensor_split(hvd.size())[hvd.rank()]


SCATTERS = {
    "reducescatter": lambda t, op: hvd.reducescatter(t, op=op),
    "reducescatter_async": lambda t, op: hvd.synchronize(hvd.reducescatter_async(t, op=op)),
    "reducescatter_": lambda t, op: hvd.reducescatter_(t.clone(), op=op),
    "reducescatter_async_": lambda t, op: hvd.synchronize(hvd.reducescatter_async_(t.clone(), op=op)),
    "grouped_reducescatter": lambda t, op: hvd.grouped_reducescatter([t, t[:0]], op=op)[0],
    "grouped_reducescatter_async": lambda t, op: hvd.synchronize(hvd.grouped_reducescatter_async([t, t], op=op))[1],
}


@pytest.mark.parametrize("form", SCATTERS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_reducescatter_gives_each_rank_its_rows_of_the_reduction(form, dtype):
    for op in [hvd.Sum, hvd.Max] if dtype == torch.bool else [hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product]:
        for shape in [(7, 2), (1, 3), (0, 2), (hvd.size() * 4,)]:
            mine = value(hvd.rank(), shape, dtype)
            assert torch.equal(SCATTERS[form](mine, op), own(expected(shape, dtype, op))), (op, shape)


@pytest.mark.parametrize("form", [form for form in SCATTERS if not form.startswith("grouped")])
def test_a_reducescatter_of_a_tensor_without_dimensions_is_refused_and_nothing_is_enqueued(form):
    before = hvd.stats()["tensors"]["submitted"]
    with pytest.raises(ValueError, match=r"shape \[\].*dimension"):
        SCATTERS[form](torch.tensor(1.0), hvd.Sum)
    for group in (hvd.grouped_reducescatter, hvd.grouped_reducescatter_async):
        with pytest.raises(ValueError, match=r"shape \[\].*dimension"):
            group([torch.ones(3), torch.tensor(1)], "with a scalar", op=hvd.Sum)
    assert hvd.stats()["tensors"]["submitted"] == before


@pytest.mark.parametrize("form", SCATTERS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_adasum_in_a_reducescatter_is_an_error_of_the_runtime_for_every_dtype(form, dtype):
    with pytest.raises(hvd.HorovodInternalError, match="op=Adasum") as caught:
        SCATTERS[form](value(hvd.rank(), (6,), dtype), hvd.Adasum)
    assert isinstance(caught.value, RuntimeError)


def test_a_reducescatter_in_place_leaves_its_result_in_the_own_rows():
    tensor = value(hvd.rank(), (7, 2), torch.float32)
    result = hvd.reducescatter_(tensor, op=hvd.Sum)
    assert torch.equal(own(tensor), own(expected((7, 2), torch.float32, hvd.Sum)))
    assert result.data_ptr() == own(tensor).data_ptr()


def test_factors_and_codecs_apply_to_a_reducescatter():
    mine = value(hvd.rank(), (6, 2), torch.float32)
    total = own(expected((6, 2), torch.float32, hvd.Sum))
    assert torch.equal(hvd.reducescatter(mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), total * 2)
    assert torch.equal(hvd.reducescatter(mine, op=hvd.Sum, compression=hvd.Compression.fp16), total)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: hvd.alltoall(torch.ones(3), [1]), "integers"),
        (lambda: hvd.alltoall(torch.ones(3), [9] * hvd.size()), "splits"),
        (lambda: hvd.alltoall(torch.ones(hvd.size() + 1)), "multiple"),
        (lambda: hvd.reducescatter_(torch.ones(4, 2).t()), "contiguous"),
        (lambda: hvd.reducescatter_(torch.tensor(1.0)), "at least one dimension"),
        (lambda: hvd.allgather(torch.eye(2).to_sparse()), "sparse"),
        (lambda: hvd.sparse_allreduce_async(torch.ones(2), "s"), "sparse"),
        (lambda: hvd.sparse_allreduce_async(torch.eye(2).to_sparse(), "s", op=hvd.Max), "only with op=Average or op=Sum"),
    ],
)
def test_a_wrong_call_is_a_value_error(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_rows_of_different_width_are_a_mismatch():
    with pytest.raises(hvd.MismatchError):
        hvd.allgather(torch.ones(2, 3 + (hvd.rank() == 1)), name="width")


def gradient_of(collective, tensor):
    tensor = tensor.clone().requires_grad_()
    output = collective(tensor)
    (output * torch.arange(float(output.numel())).reshape(output.shape) * (hvd.rank() + 1)).sum().backward()
    return tensor.grad


def test_the_gradient_of_an_allgather_is_the_average_s_own_rows():
    factor = sum(range(1, hvd.size() + 1)) / hvd.size()
    counts = [rank + 1 for rank in range(hvd.size())]
    weights = torch.arange(float(sum(counts))) * factor
    own_rows = weights.split(counts)[hvd.rank()]
    assert torch.allclose(gradient_of(hvd.allgather, torch.ones(counts[hvd.rank()])), own_rows)
    assert torch.allclose(gradient_of(lambda t: hvd.grouped_allgather([t])[0], torch.ones(counts[hvd.rank()])), own_rows)


def test_the_gradient_of_an_alltoall_goes_back():
    size, rank = hvd.size(), hvd.rank()
    expected_gradient = torch.tensor([float(rank * (receiver + 1)) for receiver in range(size)])
    assert torch.equal(gradient_of(hvd.alltoall, torch.ones(size)), expected_gradient)
    assert torch.equal(gradient_of(lambda t: hvd.alltoall(t, [1] * size)[0], torch.ones(size)), expected_gradient)


def test_a_grouped_reducescatter_is_one_group_with_and_without_gradients_and_compresses_in_both():
    mine = [torch.full((size,), 1 / 3 + hvd.rank()).requires_grad_(hvd.rank() == 0) for size in (3, 5)]
    for compression in (hvd.Compression.none, hvd.Compression.fp16):
        together = hvd.grouped_reducescatter(mine, "together", compression, hvd.Sum)
        apart = [hvd.reducescatter(each, compression=compression, op=hvd.Sum) for each in mine]
        assert all(torch.equal(one, other) for one, other in zip(together, apart))
    for op, factor in [(hvd.Sum, 6.0 * hvd.size()), (hvd.Average, 6.0)]:
        each = [tensor.detach().requires_grad_() for tensor in mine]
        reduced = hvd.grouped_reducescatter(each, op=op, prescale_factor=2.0, postscale_factor=3.0)
        sum((1 + hvd.rank()) * tensor.sum() for tensor in reduced).backward()
        rows = [[(size + hvd.size() - 1 - rank) // hvd.size() for rank in range(hvd.size())] for size in (3, 5)]
        for tensor, counts in zip(each, rows):
            expected_gradient = torch.cat([torch.full((count,), 1.0 + rank) for rank, count in enumerate(counts)]) * factor
            assert torch.allclose(tensor.grad, expected_gradient)


@pytest.mark.parametrize("form", [lambda t, op: hvd.reducescatter(t, op=op), lambda t, op: hvd.grouped_reducescatter([t], op=op)[0]])
def test_the_gradient_of_a_reducescatter_is_gathered(form):
    size = hvd.size()
    expected_gradient = torch.cat([torch.arange(2.0) * (rank + 1) for rank in range(size)])
    assert torch.equal(gradient_of(lambda t: form(t, hvd.Sum), torch.ones(2 * size)), expected_gradient * size)
    assert torch.equal(gradient_of(lambda t: form(t, hvd.Average), torch.ones(2 * size)), expected_gradient)


@pytest.mark.parametrize("op", [hvd.Sum, hvd.Average])
def test_sparse_tensors_add_up(op):
    mine = torch.sparse_coo_tensor([[hvd.rank(), 3, 3]], [[1.0, 2.0], [3.0, 4.0], [1.0, 1.0]], (5, 2))
    dense = sum(
        torch.sparse_coo_tensor([[rank, 3, 3]], [[1.0, 2.0], [3.0, 4.0], [1.0, 1.0]], (5, 2)).to_dense() for rank in range(hvd.size())
    )
    result = hvd.sparse_allreduce_async(mine, "sparse", op)()
    assert result.is_sparse
    assert torch.allclose(result.to_dense(), dense / (hvd.size() if op == hvd.Average else 1))


def test_sparse_gradients_are_reduced_by_the_optimizer():
    table = torch.nn.Embedding(5, 2, sparse=True)
    torch.nn.init.ones_(table.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=1.0), table.named_parameters())
    table(torch.tensor([hvd.rank(), 4])).sum().backward()
    optimizer.step()
    assert table.weight.grad.is_sparse
    wanted = torch.ones(5, 2)
    wanted[: hvd.size()] -= 1.0 / hvd.size()
    wanted[4] -= 1.0
    assert torch.allclose(table.weight.data, wanted)


def test_objects_of_all_ranks_come_in_their_order():
    objects = hvd.allgather_object({"rank": hvd.rank(), "text": "x" * hvd.rank() * 1000}, name="objects")
    assert [entry["rank"] for entry in objects] == list(range(hvd.size()))
    assert [len(entry["text"]) for entry in objects] == [1000 * rank for rank in range(hvd.size())]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rows_move_within_a_process_set(dtype):
    pair = hvd.add_process_set([0, 1])
    if pair.included():
        mine = value(hvd.rank(), (2, 2), dtype)
        both = torch.cat([value(0, (2, 2), dtype), value(1, (2, 2), dtype)])
        assert torch.equal(hvd.allgather(mine, process_set=pair), both)
        assert torch.equal(hvd.alltoall(mine, process_set=pair), both[hvd.rank() :: 2])
        assert torch.equal(hvd.reducescatter(mine, op=hvd.Sum, process_set=pair), (both[:2] + both[2:])[hvd.rank() : hvd.rank() + 1])
        hvd.barrier(process_set=pair)
    hvd.remove_process_set(pair)


def test_a_group_may_hold_tensors_of_several_dtypes():
    for first, second in [(torch.int64, torch.float32), (torch.uint8, torch.float64)]:
        mine = [torch.full((hvd.rank() + 1, 2), hvd.rank(), dtype=first), torch.full((3,), hvd.rank(), dtype=second)]
        for name in (None, f"mixed.{first}"):
            rows, values = hvd.grouped_allgather(mine, name)
            assert rows.dtype == first and values.dtype == second
            assert rows[:, 0].tolist() == [rank for rank in range(hvd.size()) for _ in range(rank + 1)]
            assert values.tolist() == [rank for rank in range(hvd.size()) for _ in range(3)]


def test_splits_may_be_numpys():
    splits = numpy.full(hvd.size(), 2)
    received, counts = hvd.alltoall(torch.arange(2 * hvd.size()), splits)
    assert received.tolist() == [2 * hvd.rank(), 2 * hvd.rank() + 1] * hvd.size() and counts.tolist() == [2] * hvd.size()
    with pytest.raises(ValueError, match="give [0-9]+ integers, one for each rank"):
        hvd.alltoall(torch.arange(2), [0.5] * hvd.size())


def test_sparse_sums_keep_their_dtype():
    large = 2**53 + 1
    mine = torch.sparse_coo_tensor([[hvd.rank()]], torch.tensor([large]), (hvd.size(),))
    result = hvd.sparse_allreduce_async(mine, "whole", hvd.Sum)()
    assert result.dtype == torch.int64 and result.to_dense().tolist() == [large] * hvd.size()


def test_rows_are_those_that_a_lazily_conjugated_tensor_shows():
    mine = torch.tensor([[1 + 2j], [hvd.rank() + 0j]]).conj()
    assert torch.equal(hvd.allgather(mine), torch.cat([torch.tensor([[1 - 2j], [rank + 0j]]) for rank in range(hvd.size())]))
