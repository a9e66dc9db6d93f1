"""Every collective of torch.distributed over Rueda. Usage: torchrun ... collectives.py ROUNDS [few]

Each round makes the default group, uses it and destroys it.
"""

import gc
import sys
import weakref
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

import rueda

torch.set_num_threads(1)


def full(number, *shape):
    return torch.full(shape or (3,), float(number))


def check_reductions(rank, size):
    total = sum(range(size))
    for op, wanted in [
        (dist.ReduceOp.SUM, total), (dist.ReduceOp.AVG, total / size), (dist.ReduceOp.MIN, 0), (dist.ReduceOp.MAX, size - 1),
        (dist.ReduceOp.PRODUCT, 0),
    ]:  # fmt: skip
        tensor = full(rank)
        dist.all_reduce(tensor, op=op)
        assert torch.equal(tensor, full(wanted)), op
    bits = torch.tensor([1 << rank])
    dist.all_reduce(bits, op=dist.ReduceOp.BOR)
    assert bits == (1 << size) - 1
    tensor = full(rank)
    dist.reduce(tensor, dst=1)
    assert rank != 1 or torch.equal(tensor, full(total))
    work = dist.all_reduce(torch.ones(2), async_op=True)
    assert work.wait() and work.is_completed() and work.is_success()
    assert work.get_future().wait()[0][0] == size


def refused(start, word):
    """The operation fails with a sentence that says why, and nothing else is touched."""
    try:
        start()
    except (ValueError, RuntimeError) as error:
        assert word in str(error), error
    else:
        raise AssertionError(f"{word}: not refused")


def check_edges(rank, size):
    guard = torch.zeros(64, dtype=torch.float16)
    refused(lambda: dist.all_gather_into_tensor(guard[: 4 * size], torch.ones(4, dtype=torch.float64)), "dtype")
    refused(lambda: dist.reduce_scatter_tensor(guard[:4], torch.ones(4 * size, dtype=torch.float64)), "dtype")
    assert torch.count_nonzero(guard) == 0
    for other in (size, -1):
        says = f"rank {other} is not in this group; its ranks are 0 to {size - 1}"
        refused(lambda: dist.broadcast(full(1), other), says)
        refused(lambda: dist.reduce(full(1), other), says)
        refused(lambda: dist.scatter(full(1), None, src=other), says)
        refused(lambda: dist.gather(full(1), None, dst=other), says)
        refused(lambda: dist.send(full(1), other), says)
        refused(lambda: dist.recv(full(1), other), says)
    refused(lambda: dist.all_to_all_single(torch.zeros(2 * size), torch.zeros(size, 2)), "dimensions")
    refused(lambda: dist.all_to_all_single(torch.zeros(2), torch.zeros(2), [1], [2]), "split")
    # The outputs of every rank expect other numbers of rows than come, though their sum is right.
    wrong = [1] + [2] * (size - 2) + [3]
    refused(lambda: dist.all_to_all_single(torch.zeros(2 * size), torch.zeros(2 * size), wrong, [2] * size), f"its output expects {wrong}")
    refused(lambda: dist.all_to_all([torch.zeros(n) for n in wrong], [torch.zeros(2) for _ in range(size)]), f"its output expects {wrong}")
    # Rows of a matrix to one rank only, as experts get them.
    mine = torch.full((2, 3), float(rank))
    received = torch.full((2 * size if rank == 0 else 0, 3), -1.0)
    dist.all_to_all_single(received, mine, [2] * size if rank == 0 else [0] * size, [2] + [0] * (size - 1))
    assert rank != 0 or received[:, 0].tolist() == [float(other) for other in range(size) for _ in range(2)]
    work = dist.all_gather(gathered := [torch.zeros(2) for _ in range(size)], torch.full((2,), rank + 1.0), async_op=True)
    while not work.is_completed():
        pass
    assert [float(each[0]) for each in gathered] == [other + 1.0 for other in range(size)]
    (parts,) = work.get_future().wait()  # a list of lists, as of NCCL and as PyTorch's quantization hooks take it
    assert parts[1] is gathered[1]

    def another(future):
        return dist.all_reduce(2 * future.value()[0], async_op=True).get_future().wait()[0]

    first = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(another)
    assert float(first.wait()[0]) == 2.0 * size * size


def check_rows(rank, size):
    gathered = [torch.zeros(2) for _ in range(size)]
    dist.all_gather(gathered, full(rank, 2))
    assert [part[0].item() for part in gathered] == list(range(size))
    for shape in [(2 * size,), (size, 2)]:
        whole = torch.zeros(shape)
        dist.all_gather_into_tensor(whole, full(rank, 2))
        assert whole.reshape(size, 2)[:, 0].tolist() == list(range(size))
    part = torch.zeros(2)
    dist.reduce_scatter_tensor(part, torch.arange(2.0 * size))
    assert torch.equal(part, torch.arange(2.0 * rank, 2.0 * rank + 2) * size)
    dist.reduce_scatter(part, [full(number, 2) for number in range(size)])
    assert torch.equal(part, full(rank * size, 2))
    parts = [torch.zeros(2) for _ in range(size)] if rank == 1 else None
    dist.gather(full(rank, 2), parts, dst=1)
    assert rank != 1 or [part[0].item() for part in parts] == list(range(size))
    dist.scatter(part, [full(number, 2) for number in range(size)] if rank == 1 else None, src=1)
    assert torch.equal(part, full(rank, 2))
    exchanged = torch.zeros(size)
    dist.all_to_all_single(exchanged, torch.arange(float(size)) + 10 * rank)
    assert exchanged.tolist() == [10.0 * sender + rank for sender in range(size)]
    uneven = torch.zeros(size * (rank + 1), 2)
    dist.all_to_all_single(uneven, full(rank, sum(range(size + 1)), 2), [rank + 1] * size, list(range(1, size + 1)))
    assert uneven[:: rank + 1, 0].tolist() == list(range(size))
    outputs = [torch.zeros(rank + 1) for _ in range(size)]
    dist.all_to_all(outputs, [full(rank, number + 1) for number in range(size)])
    assert [output[0].item() for output in outputs] == list(range(size))


def check_failed_works_are_freed_at_once(rank, size):
    """They hold the error; the frames of its traceback would hold them."""
    gc.disable()
    works = [dist.all_gather_into_tensor(torch.zeros(size, dtype=torch.float64), torch.zeros(1), async_op=True),
             dist.all_reduce(torch.zeros(1 + rank), async_op=True)]  # fmt: skip
    for says in ("dtype", "shape"):
        work = works.pop(0)
        refused(work.wait, says)
        assert says in str(work.exception())
        freed = weakref.ref(work)
        del work
        assert freed() is None, says
    gc.enable()


def check_works_that_nobody_holds(rank, size):
    """Lists are filled once something is waited for that began later, and without that, too."""
    pair = [[torch.zeros(2) for _ in range(size)] for _ in range(2)]
    at_root, outputs = [torch.zeros(2) for _ in range(size)] if rank == 1 else None, [torch.zeros(1) for _ in range(size)]
    dist.all_gather(pair[0], full(rank + 1, 2), async_op=True)
    dist.gather(full(rank + 1, 2), at_root, dst=1, async_op=True)
    dist.all_to_all(outputs, [full(rank + 1, 1) for _ in range(size)], async_op=True)
    dist.barrier()
    for parts in (pair[0], at_root or [], outputs):
        assert all(part[0] == number + 1 for number, part in enumerate(parts)), parts
    dist.all_gather(pair[1], full(rank + 1, 2), async_op=True)
    while pair[1][-1][1] != size:
        pass


def check_future_after_wait(rank, size):
    """It is complete once the work has been waited for, or is seen to have ended, in whichever order it was asked for."""
    for early in (True, False):
        for look in (dist.Work.wait, lambda work: [None for _ in iter(work.is_completed, True)]):
            work = dist.all_reduce(full(rank + 1), async_op=True)
            future = work.get_future() if early else None
            look(work)
            future = future or work.get_future()
            assert future.done() and torch.equal(future.value()[0], full(size * (size + 1) // 2)), (early, look)
    failed = dist.all_reduce(full(1, rank + 1), async_op=True)
    future = failed.get_future()
    refused(failed.wait, "shape differs")
    assert future.done() and failed.is_completed() and "shape differs" in str(failed.exception())


def check_looks_that_do_not_wait(rank, size):
    waiting = dist.all_gather([full(0) for _ in range(size)], full(rank), async_op=True) if rank == 0 else None
    if rank == 0:
        assert waiting.exception() is None and not waiting.is_success()
    dist.barrier(group=dist.new_group(list(range(size))))
    if rank != 0:
        waiting = dist.all_gather([full(0) for _ in range(size)], full(rank), async_op=True)
    waiting.wait()
    assert [part[0].item() for part in waiting.result()] == list(range(size))


def check_outputs_of_a_wrong_size(rank, size):
    """Wrong arguments that do not concern other ranks raise an error on this rank alone, and disturb nothing else."""
    short = [full(0, 2 if number == rank else 3) for number in range(size)]
    for parts in (short, short[:-1]):
        refused(lambda: dist.all_gather(parts, full(rank)), f"all_gather: rank {rank} of the group: ")
    wanted = short if rank == 1 else None
    if rank == 1:
        refused(lambda: dist.gather(full(rank), wanted, dst=1), "gather: rank 1 of the group: output 1 has shape [2], but rank 1 gave 3")
    else:
        dist.gather(full(rank), None, dst=1)
    refused(lambda: dist.reduce_scatter(full(0), [full(1, 2) for _ in range(size)]), f"the input needs {size} times as many as the output")
    flat = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
    refused(lambda: flat(full(0), full(1, 3 * size + 1)), f"the input has {3 * size + 1} elements, the output 3; the input needs {size} times")
    dist.barrier()


def check_gathers_of_different_sizes(rank, size):
    """Rank r gives r rows, so rank 0 gives none; then outputs of the right sum, but not of the right sizes."""

    def outputs(extra=0):
        return [full(-1, number + (extra if number == 1 else -extra if number == size - 1 else 0), 2) for number in range(size)]

    gathered, nobody = outputs(), outputs()
    work = dist.all_gather(gathered, full(rank, rank, 2), async_op=True)
    dist.all_gather(nobody, full(rank, rank, 2), async_op=True)
    at_root = outputs() if rank == 1 else None
    dist.gather(full(rank, rank, 2), at_root, dst=1)
    work.wait()
    for parts in (gathered, nobody, at_root or []):
        for number, part in enumerate(parts):
            assert torch.equal(part, full(number, number, 2)), (number, part)
    (listed,) = work.get_future().wait()
    assert listed[-1] is gathered[-1]
    mixed = outputs()
    mixed[0] = full(0, 1, 2)  # on rank 1 alone there is one row too many
    if rank == 1:
        refused(lambda: dist.all_gather(mixed, full(rank, rank, 2)), "output 0 has shape [1, 2], but rank 0 gave 0 elements")
        refused(lambda: dist.all_gather(outputs(), full(rank, rank, 3)), "output 1 has shape [1, 2], but rank 1 gave 3 elements")
    else:
        dist.all_gather(outputs(), full(rank, rank, 2))
        dist.all_gather([full(0, 1, 3) if number == 1 else part for number, part in enumerate(outputs())], full(rank, rank, 2))
    if size > 2:
        says = f"all_gather: rank {rank} of the group: output 1 has shape [2, 2], but rank 1 gave 2 elements"
        refused(lambda: dist.all_gather(outputs(extra=1), full(rank, rank, 2)), says)
    dist.barrier()


def begin_what_outlives_the_group(size):
    """Returns a check for after destroy_process_group(), which fails what other ranks have not begun yet."""
    work = dist.all_reduce(full(1), async_op=True)
    dist.barrier()

    def check():
        assert work.get_future().then(lambda done: done.value()[0][0].item()).wait() == size
        assert work.get_future().done()

    return check


def check_messages(rank, size):
    received = torch.zeros(3)
    if rank == 0:
        dist.send(full(7), 1)
        dist.recv(received, 1)
        assert torch.equal(received, full(8))
    elif rank == 1:
        dist.recv(received, 0)
        assert torch.equal(received, full(7))
        dist.send(full(8), 0)
    operations = [dist.P2POp(dist.isend, full(rank), (rank + 1) % size), dist.P2POp(dist.irecv, received, (rank - 1) % size)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert torch.equal(received, full((rank - 1) % size))
    check_messages_from_any(rank, size)


def check_messages_from_any(rank, size):
    """Each rank sends two messages with a tag and one without to the last one, which asks for them in another order."""
    last = size - 1
    if rank != last:
        works = [dist.isend(full(rank), last, tag=5), dist.isend(full(rank, 2), last), dist.isend(full(rank + 100), last, tag=5)]
        for work in works:
            work.wait()
        return
    short, received = full(-1, 2), full(-1)
    untagged = [dist.irecv(torch.empty_like(short)) for _ in range(last)]
    heard = []
    for _ in range(2 * last):
        sender = dist.recv(received, tag=5)
        assert torch.equal(received, full(sender + 100 * heard.count(sender))), (sender, received)
        heard.append(sender)
    for work in untagged:
        work.wait()
        assert torch.equal(work.result()[0], full(work._source_rank(), 2))
    assert sorted(heard + [work._source_rank() for work in untagged]) == sorted(3 * list(range(last)))


def check_what_is_only_read_may_have_gaps(rank, size):
    column = torch.stack([full(rank, size), full(-1, size)], dim=1)[:, 0]
    assert not column.is_contiguous()
    gathered, parts = full(0, size * size), [full(0, size) for _ in range(size)]
    dist.all_gather_single(gathered, column) if hasattr(dist, "all_gather_single") else dist.all_gather_into_tensor(gathered, column)
    dist.all_gather(parts, column)
    wanted = torch.arange(float(size)).repeat_interleave(size)
    assert torch.equal(gathered, wanted) and torch.equal(torch.cat(parts), wanted)
    swapped, own = full(0, size), full(0, 1)
    dist.all_to_all_single(swapped, column)
    assert torch.equal(swapped, torch.arange(float(size)))
    dist._reduce_scatter_base(own, column)
    assert own == sum(range(size))


def check_sparse_tensors(rank, size):
    """Each rank has two entries; all ranks share one of them."""
    tensor = torch.sparse_coo_tensor([[0, rank + 1]], [1.0, 10.0], (size + 2,))
    dist.all_reduce(tensor)
    assert tensor.to_dense().tolist() == [size] + [10.0] * size + [0.0]
    tensor = torch.sparse_coo_tensor([[rank]], [[1.0, 2.0]], (size, 2))
    future = dist.all_reduce(tensor, op=dist.ReduceOp.AVG, async_op=True).get_future()
    assert torch.allclose(future.wait()[0].to_dense(), torch.tensor([[1.0, 2.0]] * size) / size)
    refused(lambda: dist.all_reduce(tensor, op=dist.ReduceOp.MAX), "only with op=Average or op=Sum")
    refused(lambda: dist.broadcast(tensor, 0), "sparse")
    refused(lambda: dist.all_reduce(full(1), op=dist._make_nccl_premul_sum(2.0)), "operator PREMUL_SUM is not supported")


def check_the_rest(rank, size):
    tensor = full(rank)
    dist.broadcast(tensor, src=1)
    assert torch.equal(tensor, full(1))
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert [entry["rank"] for entry in objects] == list(range(size))
    chosen = [{"rank": rank}]
    dist.broadcast_object_list(chosen, src=1)
    assert chosen == [{"rank": 1}]
    pair = dist.new_group([0, 1])
    if rank < 2:
        tensor = full(1)
        dist.all_reduce(tensor, group=pair)
        assert torch.equal(tensor, full(2))
    assert torch.equal(functional.all_reduce(full(1), "sum", dist.group.WORLD) + 0, full(size))
    assert (functional.all_gather_tensor(full(rank, 2), 0, dist.group.WORLD) + 0)[2] == 1
    with dist._coalescing_manager():
        first, second = full(1), full(2)
        dist.all_reduce(first)
        dist.all_reduce(second)
    dist.barrier()
    assert torch.equal(first, full(size)) and torch.equal(second, full(2 * size))


def check_calls_of_the_groups_own_methods(rank, size):
    """In the forms that the methods have in C++."""
    group, soon, op = dist.group.WORLD, timedelta(seconds=60), dist.ReduceOp.MAX
    mine, every = rank + 1, [float(number) for number in range(1, size + 1)]
    ones, total = [1] * size, [sum(every)]

    def rows(count):
        return [full(mine, 1) for _ in range(count)]

    for begin, expected in [
        (lambda t: group.allreduce(t), total),
        (lambda t: group.allreduce([t], op, soon), [size]),
        (lambda t: group.allreduce(tensor=t, op=op, timeout=soon), [size]),
        (lambda t: group.broadcast(t, 1, soon), [2]),
        (lambda t: group.broadcast(tensor=t, root=1), [2]),
        (lambda t: group.reduce(t, 1), total if rank == 1 else None),
        (lambda t: group.reduce(t, root=1, op=op, timeout=soon), [size] if rank == 1 else None),
        (lambda t: group.allgather(list(t.split(1)), full(mine, 1)), every),
        (lambda t: group.gather(list(t.split(1)) if rank == 1 else [], full(mine, 1), 1, soon), every if rank == 1 else None),
        (lambda t: group.scatter(t, [full(7 + n, 1) for n in every] if rank == 1 else [], root=1), [7 + mine]),
        (lambda t: group.reduce_scatter(t, rows(size)), total),
        (lambda t: group.reduce_scatter(t, rows(size), op, soon), [size]),
        (lambda t: group.all_to_all_single(t, full(mine, size), ones, ones, soon), every),
        (lambda t: group.alltoall(list(t.split(1)), rows(size)), every),
        (lambda t: group.barrier(timeout=soon), None),
    ]:
        tensor = full(mine, 1 if expected is None else len(expected))
        begin(tensor).wait()
        assert expected is None or tensor.tolist() == expected, (tensor, expected)


def main():
    for number in range(int(sys.argv[1])):
        dist.init_process_group("rueda")
        if number == 0:
            rueda.init()
        elif number == 1:  # the job is the group's, and shutdown() leaves it to it
            rueda.init()
            rueda.shutdown()
            rueda.shutdown()
        rank, size = dist.get_rank(), dist.get_world_size()
        check_reductions(rank, size)
        if sys.argv[2:] != ["few"]:
            check_rows(rank, size)
            check_edges(rank, size)
            check_failed_works_are_freed_at_once(rank, size)
            check_works_that_nobody_holds(rank, size)
            check_future_after_wait(rank, size)
            check_looks_that_do_not_wait(rank, size)
            check_outputs_of_a_wrong_size(rank, size)
            check_gathers_of_different_sizes(rank, size)
            check_messages(rank, size)
            check_what_is_only_read_may_have_gaps(rank, size)
            check_sparse_tensors(rank, size)
            check_the_rest(rank, size)
            check_calls_of_the_groups_own_methods(rank, size)
        check_after = begin_what_outlives_the_group(size)
        dist.destroy_process_group()
        check_after()
        assert rueda.is_initialized() == (number == 0), "the group that began the job ends it"
        if number == 0:
            rueda.shutdown()
    print("ok")


main()
