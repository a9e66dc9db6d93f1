"""Callbacks that begin collectives, in every way in which they can be attached. Each collective sums a number of its own, so
that a sum says whose numbers have met."""

import random
import threading

import torch
import torch.distributed as dist
import torch.futures


def summed(number, group=None):
    """Begins the sum of this number and the ranks."""
    return dist.all_reduce(torch.tensor([1000.0 * number + dist.get_rank()]), group=group, async_op=True)


def wanted(number, size=None):
    size = size or dist.get_world_size()
    return size * 1000.0 * number + size * (size - 1) / 2


def disturb():
    """Takes a time that differs between ranks and calls."""
    for _ in range(random.randrange(20000)):
        pass


def future_of(number):
    """The future of a sum. On rank 0 it is complete already, so that a callback runs on the thread that attaches it."""
    future = summed(number).get_future()
    if dist.get_rank() == 0:
        future.wait()
    return future


def nested(number):
    """A callback that adds the sum of `number` to a list that the future before it holds."""

    def callback(future):
        disturb()
        value = future.value()
        before = value if isinstance(value, list) and not isinstance(value[0], torch.Tensor) else []
        return [*before, summed(number).get_future().wait()[0].item()]

    return callback


def check_chains_and_branches():
    chains = {}
    for number in range(10):
        first = future_of(number)
        chains[number] = [first.then(nested(100 + number)).then(nested(200 + number)), first.then(nested(300 + number))]
        plain = summed(400 + number)  # begun outside, meanwhile
        plain.wait()
        assert plain.result()[0].item() == wanted(400 + number)
    for number, (chain, branch) in chains.items():
        assert chain.wait() == [wanted(100 + number), wanted(200 + number)], number
        assert branch.wait() == [wanted(300 + number)], number


def check_callbacks_of_operations_in_callbacks():
    """None of them waits, so only what the last return says that all have ended."""
    results, left = {}, threading.Semaphore(0)

    def descend(number, depth):
        def callback(future):
            disturb()
            results[number, depth] = future.value()[0].item()
            if depth < 3:
                summed(10 * number + depth + 1).get_future().add_done_callback(descend(number, depth + 1))
            else:
                left.release()

        return callback

    for number in range(8):
        future_of(10 * number).add_done_callback(descend(number, 0))
    for _ in range(8):
        assert left.acquire(timeout=100)
    for (number, depth), result in results.items():
        assert result == wanted(10 * number + depth), (number, depth)


def check_every_kind_of_collective(group):
    rank, size = dist.get_rank(), dist.get_world_size()

    def callback(future):
        disturb()
        base = future.value()[0].item()
        parts = [torch.zeros(1) for _ in range(size)]
        dist.all_gather(parts, torch.tensor([base + rank]), group=group)
        assert [part.item() - base for part in parts] == list(range(size))
        own = torch.zeros(1)
        dist.reduce_scatter_tensor(own, torch.full((size,), base))
        assert own.item() == size * base
        exchanged = torch.zeros(size)
        dist.all_to_all_single(exchanged, torch.full((size,), base + rank))
        assert exchanged.tolist() == [base + other for other in range(size)]
        dist.broadcast(own.fill_(base + rank), src=1)
        assert own.item() == base + 1
        dist.reduce(own, dst=0, group=group)
        assert rank != 0 or own.item() == size * (base + 1)
        dist.all_reduce_coalesced(several := [torch.ones(1), torch.full((2,), base)])
        assert several[1].tolist() == [size * base] * 2
        with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as works:
            dist.all_reduce(own.fill_(base))
        works.wait()
        assert own.item() == size * base
        dist.barrier(group=group)
        objects = [None] * size
        dist.all_gather_object(objects, (base, rank))
        assert objects == [(base, other) for other in range(size)]
        return True

    assert all(torch.futures.wait_all([future_of(number).then(callback) for number in range(4)]))


def check_groups(pair):
    """A callback begins operations in a group without the third rank."""
    rank = dist.get_rank()

    def callback(number):
        def run(future):
            disturb()
            inner = [summed(10 * number, pair).get_future().wait()[0].item()] if rank < 2 else []
            return inner, summed(10 * number + 1).get_future().wait()[0].item()

        return run

    futures = [future_of(number).then(callback(number)) for number in range(6)]
    for number, (inner, outer) in enumerate(torch.futures.wait_all(futures)):
        assert inner == ([wanted(10 * number, 2)] if rank < 2 else []) and outer == wanted(10 * number + 1)


def check_collected():
    def callback(number):
        def run(future):
            disturb()
            assert len(future.value()) == 2
            return summed(number).get_future().wait()[0].item()

        return run

    pairs = [(future_of(number), future_of(number + 50)) for number in range(5)]
    joined = [torch.futures.collect_all(list(pair)).then(callback(10 + number)) for number, pair in enumerate(pairs)]
    again = [torch.futures.collect_all(list(pair)).then(callback(20 + number)) for number, pair in enumerate(pairs)]
    assert torch.futures.wait_all(joined) == [wanted(10 + number) for number in range(5)]
    assert torch.futures.wait_all(again) == [wanted(20 + number) for number in range(5)]


def check_long_chain():
    """Its path would be longer than a name can be."""

    def deeper(future):
        before = future.value() if isinstance(future.value(), int) else 0
        assert summed(before).get_future().then(lambda inner: inner.value()[0].item()).wait() == wanted(before)
        return before + 1

    future = future_of(0)
    for _ in range(60):
        future = future.then(deeper)
    assert future.wait() == 60


def refused(future):
    try:
        future.wait()
    except (ValueError, RuntimeError) as error:
        assert "begins in a callback of a future that belongs to no operation of all ranks" in str(error), error
    else:
        raise AssertionError("not refused")


def check_refusals():
    rank = dist.get_rank()
    own = torch.futures.Future()
    second = own.then(lambda _: summed(1).wait())
    summed(2).get_future().add_done_callback(lambda _: own.set_result(None))
    refused(second)
    if rank == 1:
        received = dist.irecv(torch.zeros(1), 0).get_future().then(lambda _: summed(3).wait())
    dist.barrier()
    if rank == 0:
        dist.send(torch.zeros(1), 1)
    elif rank == 1:
        refused(received)
    # A future of the program's own: if its callback runs at once, or in the order of the program, operations match by order.
    done, later = torch.futures.Future(), torch.futures.Future()
    done.set_result(None)
    assert done.then(lambda _: summed(4).get_future().wait()[0].item()).wait() == wanted(4)
    result = later.then(lambda _: summed(5).get_future().wait()[0].item())
    later.set_result(None)
    assert result.wait() == wanted(5)


def check_callbacks():
    random.seed(dist.get_rank())
    pair, everyone = dist.new_group([0, 1]), dist.new_group(list(range(dist.get_world_size())))
    check_chains_and_branches()
    check_callbacks_of_operations_in_callbacks()
    check_every_kind_of_collective(everyone)
    check_groups(pair)
    check_collected()
    check_long_chain()
    check_refusals()
