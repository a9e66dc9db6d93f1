"""Sparse gradients: ranks without one, ranks that differ."""

import pytest
import torch

import rueda.torch as hvd
from helpers import same_on_all_ranks
from rueda.session import current
from rueda.torch import sparse


def table_and_bias():
    table, bias = torch.nn.Embedding(5, 2, sparse=True), torch.nn.Parameter(torch.ones(3))
    torch.nn.init.ones_(table.weight)
    return table, bias


def optimizer_of(table, bias, **options):
    named = [("bias", bias), ("table", table.weight)]
    if options.pop("grouped", False):
        options["groups"] = [[bias, table.weight]]
    return hvd.DistributedOptimizer(torch.optim.SGD([bias, table.weight], lr=1.0), named, **options)


@pytest.mark.parametrize("options", [{}, {"grouped": True}, {"sparse_as_dense": True}, {"sparse_as_dense": True, "grouped": True}], ids=str)
@pytest.mark.parametrize("set_to_none", [True, False])
def test_a_rank_that_does_not_use_a_table_any_more_adds_nothing_to_it(options, set_to_none):
    table, bias = table_and_bias()
    optimizer = optimizer_of(table, bias, **options)
    expected = torch.ones(5, 2)
    for step in range(3):
        optimizer.zero_grad(set_to_none=set_to_none)
        users = range(hvd.size()) if step == 0 else [step - 1]
        loss = bias.sum()
        if hvd.rank() in users:
            loss = loss + table(torch.tensor([hvd.rank()])).sum()
        loss.backward()
        optimizer.step()
        for user in users:
            expected[user] -= 1.0 / hvd.size()
    assert torch.allclose(table.weight.data, expected) and same_on_all_ranks(table.weight)
    assert torch.allclose(bias.data, torch.full((3,), -2.0))


@pytest.mark.parametrize("options", [{"sparse_as_dense": True}, {"sparse_as_dense": True, "grouped": True}], ids=str)
def test_as_dense_ones_even_the_first_may_be_missing(options):
    table, bias = table_and_bias()
    optimizer = optimizer_of(table, bias, **options)
    (bias.sum() + (table(torch.tensor([4])).sum() if hvd.rank() == 1 else 0)).backward()
    optimizer.step()
    assert torch.allclose(table.weight.data[4], torch.full((2,), 1 - 1 / hvd.size()))


class Half:
    """A compressor of the user's own."""

    @staticmethod
    def compress(tensor):
        return tensor.half(), tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tensor.to(ctx)


AS_DENSE = [{}, {"num_groups": 1}, {"compression": Half}, {"backward_passes_per_step": 2}]


@pytest.mark.parametrize("options", AS_DENSE, ids=str)
@pytest.mark.parametrize("first_user", [None, 1], ids="the first gradient is of rank {}".format)
@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_reduced_as_dense_ones_are_sparse_when_the_optimizer_steps(options, first_user, set_to_none):
    table = torch.nn.Embedding(5, 2, sparse=True)
    torch.nn.init.ones_(table.weight)
    passes, alone = options.get("backward_passes_per_step", 1), torch.nn.Parameter(torch.ones(5, 2))
    theirs = hvd.DistributedOptimizer(torch.optim.SparseAdam([table.weight], lr=0.5), sparse_as_dense=True, **options)
    ours = torch.optim.SparseAdam([alone], lr=0.5)
    for step in range(3):
        users = [first_user] if step == 0 and first_user is not None else range(hvd.size())
        for _ in range(passes if hvd.rank() in users else 0):
            table(torch.tensor([hvd.rank(), 4])).sum().backward()
        theirs.step()
        assert table.weight.grad.is_sparse and table.weight.grad.sparse_dim() == 1
        dense = torch.zeros(5, 2)
        for user in users:
            dense[[user, 4]] += passes / hvd.size()
        alone.grad = dense.to_sparse(1)
        ours.step()
        assert torch.allclose(table.weight.grad.to_dense(), dense, atol=1e-3)
        theirs.zero_grad(set_to_none=set_to_none)
    assert torch.allclose(table.weight.data, alone.data, atol=1e-2) and same_on_all_ranks(table.weight)


def test_a_gradient_that_came_dense_stays_dense():
    weight = torch.nn.Parameter(torch.ones(5, 2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), sparse_as_dense=True)
    for sparse in (True, False, True):
        torch.nn.functional.embedding(torch.tensor([2]), weight, sparse=sparse).sum().backward()
        optimizer.step()
        assert weight.grad.is_sparse == sparse
        optimizer.zero_grad(set_to_none=True)


@pytest.mark.parametrize("options", [{}, {"grouped": True}], ids=str)
def test_a_rank_whose_first_gradient_is_missing_where_others_are_sparse_is_told_as_they_are(options):
    table, bias = table_and_bias()
    optimizer = optimizer_of(table, bias, **options)
    loss = bias.sum()
    if hvd.rank() != 1:
        loss = loss + table(torch.tensor([0])).sum()
    loss.backward()
    with pytest.raises(hvd.MismatchError) as raised:
        optimizer.step()
    (note,) = raised.value.__notes__
    assert "table" in note and "sparse_as_dense=True" in note
    optimizer.zero_grad()
    assert float(hvd.allreduce(torch.ones(1), op=hvd.Sum)) == hvd.size()


def test_a_parameter_that_is_dense_again_is_reduced_with_dense_zeros_where_it_is_not_used():
    weight = torch.nn.Parameter(torch.ones(5, 2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("weight", weight)])
    for sparse, users in [(True, range(hvd.size())), (False, range(hvd.size())), (False, [0])]:
        optimizer.zero_grad()
        if hvd.rank() in users:
            torch.nn.functional.embedding(torch.tensor([2]), weight, sparse=sparse).sum().backward()
        optimizer.step()
    assert torch.allclose(weight.data[2], torch.full((2,), 1 - 1 - 1 - 1 / hvd.size()))


DIFFERENT = {
    "shape": lambda own: torch.sparse_coo_tensor([[0]], [[1.0, 2.0]], (5 + own, 2)),
    "width": lambda own: torch.sparse_coo_tensor([[0]], torch.ones(1, 2 + own), (5, 2 + own)),
    "dimensions": lambda own: torch.ones([2] * (2 + own)).to_sparse(),
    "dtype": lambda own: torch.sparse_coo_tensor([[0]], torch.ones(1, dtype=torch.float64 if own else torch.float32), (5,)),
    "sparse dimensions": lambda own: torch.eye(3).to_sparse(1 + own),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_tensors_that_differ_are_a_mismatch_told_alike_on_all_ranks(what):
    mine = DIFFERENT[what](int(hvd.rank() == 1))
    reduced = hvd.sparse_allreduce_async(mine, "differing", hvd.Sum)
    for _ in range(2):
        with pytest.raises(hvd.MismatchError, match='sparse all-reduce "differing": ranks? 0.* gave shape .*, rank 1 gave shape') as raised:
            reduced()
    assert len(set(hvd.allgather_object(str(raised.value)))) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.bool, torch.complex64], ids=str)
def test_ranks_without_entries_take_part_in_every_dtype(dtype):
    indices = torch.full((1, hvd.rank()), 3)  # rank 0 has none
    mine = torch.sparse_coo_tensor(indices, torch.ones(hvd.rank(), 3, dtype=dtype), (5, 3))
    result = hvd.sparse_allreduce_async(mine, None, hvd.Sum)()
    expected = torch.zeros(5, 3, dtype=dtype)
    expected[3] = True if dtype == torch.bool else sum(range(hvd.size()))
    assert result.dtype == dtype and torch.equal(result.to_dense(), expected)


def test_those_of_one_name_go_as_a_table_once_the_last_had_many_entries_whoever_waited_for_it(monkeypatch):
    started = []
    for name in ("start_rows", "start_in_place"):
        start = getattr(sparse, name)
        monkeypatch.setattr(sparse, name, lambda *rest, start=start, name=name: started.append(name) or start(*rest))
    mine, few = torch.ones(40, 2).to_sparse(1), torch.sparse_coo_tensor([[0]], [[1.0, 1.0]], (40, 2))
    for tensor in (mine, mine, few, few):
        reduced = hvd.sparse_allreduce_async(tensor, "again", hvd.Sum)
        if hvd.rank() != 1:
            assert torch.equal(reduced().to_dense(), tensor.to_dense() * hvd.size())
        else:
            while not reduced.__self__.poll():
                pass
    if hvd.rank() == 1:
        assert torch.equal(reduced().to_dense(), few.to_dense() * hvd.size())
    assert started == ["start_rows", "start_in_place", "start_in_place", "start_rows"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int64, torch.int8], ids=str)
@pytest.mark.parametrize("sparse_dimensions", [1, 2])
def test_many_entries_go_as_one_table_and_give_the_same(dtype, sparse_dimensions, monkeypatch):
    started = []
    for name in ("start_rows", "start_in_place"):
        start = getattr(sparse, name)
        monkeypatch.setattr(sparse, name, lambda *rest, start=start, name=name: started.append(name) or start(*rest))
    shape, history = (4, 3, 8), sparse.History()

    def reduce(dense):
        handle = sparse.start_sparse(dense.to_sparse(sparse_dimensions), "t", hvd.Sum, hvd.global_process_set, history)
        return handle.wait()

    full = (torch.arange(96).reshape(shape) % 5 + hvd.rank() + 1).to(dtype)
    few = torch.zeros_like(full)
    few[hvd.rank() % 4, 1] = 2
    for given in (full, full, full, few, few):
        reduced = reduce(given)
        every = [(torch.arange(96).reshape(shape) % 5 + rank + 1).to(dtype) for rank in range(hvd.size())]
        if given is few:
            every = [torch.zeros_like(full).index_put_((torch.tensor([rank % 4]), torch.tensor([1])), few[hvd.rank() % 4, 1])
                     for rank in range(hvd.size())]
        assert reduced.is_coalesced() and reduced.sparse_dim() == sparse_dimensions
        assert torch.equal(reduced.to_dense(), sum(every[1:], every[0]))
    row_bytes = (8 if sparse_dimensions == 2 else 24) * full.element_size()
    fewer = hvd.size() * (8 * sparse_dimensions + row_bytes) > 2 * (row_bytes + full.element_size())
    enough = fewer and (full.is_floating_point() or full.is_complex())
    assert started == ["start_rows", *["start_in_place" if enough else "start_rows"] * 3, "start_rows"]


def test_a_row_of_zeros_that_a_rank_has_is_kept_in_a_table_too():
    history, zeros = sparse.History(), torch.sparse_coo_tensor(torch.arange(6).unsqueeze(0), torch.zeros(6, 4), (6, 4))
    for _ in range(3):
        reduced = sparse.start_sparse(zeros, "zeros", hvd.Average, hvd.global_process_set, history).wait()
        assert reduced.indices().tolist() == [list(range(6))]


def test_after_a_join_all_begin_with_entries_again():
    history, full = sparse.History(), torch.ones(6, 4).to_sparse(1)
    session = current()
    for _ in range(2):
        sparse.start_sparse(full, "joined", hvd.Sum, hvd.global_process_set, history).wait()
    assert history.goes_dense(full, session, 0)
    hvd.join()
    assert not history.goes_dense(full, session, 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.int32], ids=str)
def test_sums_and_averages_are_rounded_as_dense_ones_are(dtype):
    given = torch.tensor([[100.0, 2.0], [hvd.rank() + 1.0, -3.0 - hvd.rank()]]).to(dtype)
    if dtype is torch.float16:
        given[0, 1] = 2048 if hvd.rank() == 0 else 1
    for op in (hvd.Sum, hvd.Average):
        history, dense = sparse.History(), hvd.allreduce(given, op=op)
        for _ in range(3):  # as rows, then as a table
            reduced = sparse.start_sparse(given.to_sparse(1), f"rounded.{op}", op, hvd.global_process_set, history).wait()
            assert reduced.dtype == dtype and torch.equal(reduced.to_dense(), dense)


def test_after_a_dense_gradient_on_one_rank_sparse_ones_are_reduced_again():
    table, bias = table_and_bias()
    optimizer = optimizer_of(table, bias, op=hvd.Sum)
    for step in range(6):
        optimizer.zero_grad(set_to_none=True)  # zeros of a dense one, PyTorch's default before 2.0, would stay dense
        used = table(torch.arange(5)).sum()
        if step == 3 and hvd.rank() == 0:
            used = table.weight.sum()
        (used + bias.sum()).backward()
        if step == 3:
            with pytest.raises(hvd.MismatchError):
                optimizer.synchronize()
            continue
        optimizer.synchronize()
        assert torch.equal(table.weight.grad.to_dense(), torch.full((5, 2), float(hvd.size())))
