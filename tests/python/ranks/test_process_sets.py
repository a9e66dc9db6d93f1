"""Operations among some of the ranks."""

import pytest
import torch

import rueda.torch as hvd
from helpers import DTYPES, value


@pytest.fixture
def pair():
    """The ranks 0 and 1, added by all ranks."""
    chosen = hvd.add_process_set([0, 1])
    yield chosen
    if chosen.included():
        hvd.barrier(process_set=chosen)
    assert hvd.remove_process_set(chosen)


def total(shape, dtype, ranks):
    summed = sum(value(rank, shape, dtype).double() for rank in ranks)
    return (summed != 0).to(dtype) if dtype == torch.bool else summed.to(dtype)


def test_a_set_knows_its_members(pair):
    assert pair.process_set_id > 0 and pair.ranks == [0, 1] and pair.size() == 2
    assert pair.included() == (hvd.rank() < 2)
    assert pair.rank() == (hvd.rank() if hvd.rank() < 2 else -1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_its_members_reduce_and_broadcast_among_themselves(pair, dtype):
    mine = value(hvd.rank(), (5,), dtype)
    if pair.included():
        expected = total((5,), dtype, pair.ranks)
        assert torch.equal(hvd.allreduce(mine, op=hvd.Sum, process_set=pair), expected)
        assert torch.equal(hvd.allreduce_(mine.clone(), op=hvd.Sum, process_set=pair), expected)
        handle = hvd.grouped_allreduce_async_([mine.clone(), mine.clone()], op=hvd.Sum, process_set=pair)
        assert torch.equal(hvd.synchronize(handle)[1], expected)
        assert torch.equal(hvd.broadcast(mine, 1, process_set=pair), value(1, (5,), dtype))
        assert torch.equal(hvd.broadcast_(mine.clone(), 0, process_set=pair), value(0, (5,), dtype))
    assert torch.equal(hvd.allreduce(mine, op=hvd.Sum), total((5,), dtype, range(hvd.size())))


def test_who_is_no_member_is_refused(pair):
    if not pair.included():
        with pytest.raises(ValueError, match=f"rank {hvd.rank()} .*process set {pair.process_set_id}"):
            hvd.allreduce(torch.ones(1), process_set=pair)


def test_disjoint_sets_reduce_at_the_same_time():
    sets = [hvd.add_process_set([rank]) for rank in range(hvd.size())]
    mine = sets[hvd.rank()]
    assert torch.equal(hvd.allreduce(torch.full((3,), 2.0), op=hvd.Sum, process_set=mine), torch.full((3,), 2.0))
    assert all(hvd.remove_process_set(one) for one in sets)


def test_misuse_is_told(pair):
    with pytest.raises(ValueError, match="already"):
        hvd.add_process_set(pair)
    with pytest.raises(ValueError, match="rank 99"):
        hvd.add_process_set([0, 99])
    with pytest.raises(ValueError, match="at least one rank"):
        hvd.add_process_set([])
    assert not hvd.remove_process_set(hvd.global_process_set)
    assert not hvd.remove_process_set(hvd.ProcessSet([0]))
    with pytest.raises(ValueError, match="ProcessSet"):
        hvd.init(process_sets=[[0]])


def test_sets_can_be_there_from_the_start_and_end_with_the_job(monkeypatch):
    hvd.barrier()  # no rank is behind when the first one leaves
    hvd.shutdown()
    chosen = hvd.ProcessSet(range(2))
    for dynamic in ("0", "1"):
        monkeypatch.setenv("RUEDA_DYNAMIC_PROCESS_SETS", dynamic)
        hvd.init(process_sets=[hvd.ProcessSet([0]), chosen])
        assert chosen.process_set_id == 2
        if chosen.included():
            assert float(hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=chosen)) == 2.0
        if dynamic == "0":
            with pytest.raises(ValueError, match="DYNAMIC_PROCESS_SETS"):
                hvd.add_process_set([0, 1])
        hvd.barrier()
        hvd.shutdown()
        assert chosen.process_set_id is None and chosen.included() is None
    hvd.init(None, "dynamic")
    assert hvd.add_process_set(chosen) is chosen and chosen.process_set_id == 1 and chosen.included() == (hvd.rank() in chosen.ranks)


def test_no_job_begins_with_sets_that_are_wrong_or_not_the_same():
    hvd.barrier()
    own = hvd.rank()
    hvd.shutdown()
    twice = hvd.ProcessSet([0])
    for wrong, says in [([twice, twice], "listed twice"), ([hvd.ProcessSet([])], "at least one rank"), ([hvd.ProcessSet([0, 99])], "rank 99")]:
        with pytest.raises(ValueError, match=says):
            hvd.init(process_sets=wrong)
    differing = hvd.ProcessSet([0] if own == 0 else [0, 1])
    with pytest.raises(hvd.HorovodInternalError, match='process sets: "rank 0" on rank 0 .*"ranks 0-1" on rank'):
        hvd.init(process_sets=[differing])
    assert not hvd.is_initialized() and differing.process_set_id is None
    hvd.init()
    hvd.barrier()


def test_an_optimizer_and_state_of_some_ranks(pair):
    torch.manual_seed(hvd.rank())
    weight = torch.nn.Parameter(torch.ones(2) * (hvd.rank() + 1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("weight", weight)], process_set=pair)
    if pair.included():
        hvd.broadcast_parameters({"weight": weight}, 1, process_set=pair)
        assert hvd.broadcast_object(hvd.rank(), 1, process_set=pair) == 1
    (weight * (hvd.rank() + 1)).sum().backward()
    optimizer.step()
    expected = 2.0 - 1.5 if pair.included() else (hvd.rank() + 1) - float(hvd.rank() + 1)
    assert torch.allclose(weight.data, torch.full((2,), expected))
