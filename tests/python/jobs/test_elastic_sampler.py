"""How an ElasticSampler divides a data set, with ranks that are made up."""

import pytest

from rueda.torch.elastic import ElasticSampler, sampler as sampler_module


def use_job(monkeypatch, size, rank):
    monkeypatch.setattr(sampler_module, "size", lambda: size)
    monkeypatch.setattr(sampler_module, "rank", lambda: rank)


def everything(monkeypatch, size, make):
    """What each of `size` ranks reads, one list for each."""
    read = []
    for rank in range(size):
        use_job(monkeypatch, size, rank)
        read.append(list(make()))
    return read


@pytest.mark.parametrize("count, size", [(10, 1), (10, 3), (9, 3), (2, 4), (1, 5), (0, 2)])
def test_all_ranks_together_read_everything_and_pad_from_the_front(monkeypatch, count, size):
    read = everything(monkeypatch, size, lambda: ElasticSampler(range(count), shuffle=False))
    length = -(-count // size)
    assert all(len(each) == length for each in read)
    dealt = [read[position % size][position // size] for position in range(length * size)]
    assert dealt == [position % count for position in range(length * size)] if count else dealt == []
    use_job(monkeypatch, size, 0)
    assert len(ElasticSampler(range(count))) == length


def test_an_epoch_that_three_ranks_begin_and_two_end_reads_each_sample_once(monkeypatch):
    use_job(monkeypatch, 3, 0)
    state = ElasticSampler(range(30), seed=4)
    first = everything(monkeypatch, 3, lambda: ElasticSampler(range(30), seed=4))
    use_job(monkeypatch, 3, 0)
    for batch in range(2):
        state.record_batch(batch, 3)
    assert state.state_dict() == {"epoch": 0, "processed_num": 18}

    def rest():
        sampler = ElasticSampler(range(30), seed=4)
        sampler.load_state_dict(state.state_dict())
        return sampler

    second = everything(monkeypatch, 2, rest)
    done = [index for each in first for index in each[:6]]
    assert set(done) == rest().processed_indices
    assert sorted(done + [index for each in second for index in each]) == list(range(30))
    assert (rest().num_replicas, rest().rank, rest().num_samples, rest().total_size) == (2, 1, 6, 12)
    assert sorted(rest().remaining_indices) == sorted(set(range(30)) - set(done))


def test_each_epoch_has_another_order_that_all_ranks_agree_on(monkeypatch):
    use_job(monkeypatch, 1, 0)
    sampler, other = ElasticSampler(range(50), seed=1), ElasticSampler(range(50), seed=1)
    orders = []
    for epoch in range(3):
        orders.append(list(sampler))
        other.set_epoch(epoch)
        assert list(other) == orders[-1]
        sampler.record_batch(0, 50)
        sampler.set_epoch(epoch + 1)
        assert sampler.processed_num == 0
    assert len({tuple(order) for order in orders}) == 3
    assert list(ElasticSampler(range(50), seed=2)) != orders[0]
