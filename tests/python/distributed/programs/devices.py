"""Tensors on a device go through operations by copies on the host, and come back, in both dialects. Usage: torchrun ... devices.py"""

import os

import rueda.torch as hvd
import stand_in_device
import torch
import torch.distributed as dist
from rueda import session
from rueda.errors import MismatchError
from rueda.torch import placed

torch.set_num_threads(1)


def there(*numbers):
    return torch.tensor(numbers, device=stand_in_device.NAME)


def check(tensor, *numbers):
    assert tensor.device.type == stand_in_device.NAME
    assert tensor.cpu().tolist() == list(numbers), (tensor.cpu().tolist(), numbers)


def check_that_nothing_is_done_unasked():
    """The device itself: a read that does not wait for the stream gets the old numbers."""
    numbers, stream, event = there(1.0), torch.standin.Stream(), torch.standin.Event()
    stream.wait_stream(torch.standin.current_stream())
    with torch.standin.stream(stream):
        numbers.add_(1.0)
        event.record()
    check(numbers, 1.0)
    torch.standin.current_stream().wait_event(event)
    check(numbers, 2.0)


def check_reductions(rank, size):
    total = float(sum(range(size)))
    tensor = there(float(rank), 1.0)
    dist.all_reduce(tensor)
    check(tensor, total, size)
    dist.all_reduce_coalesced(both := [there(float(rank)), there(2.0)])
    check(both[0], total)
    check(both[1], 2.0 * size)
    tensor = there(float(rank), 1.0)
    dist.reduce(tensor, 1)
    if rank == 1:
        check(tensor, total, size)
    tensor = there(-1.0)
    dist.reduce_scatter_tensor(tensor, there(*(float(rank * part) for part in range(size))))
    check(tensor, rank * total)
    dist.reduce_scatter(tensor, [there(float(rank + part)) for part in range(size)], op=dist.ReduceOp.MAX)
    check(tensor, size - 1.0 + rank)


def check_rows(rank, size):
    ranks = [float(other) for other in range(size)]
    gathered = there(*[-1.0] * 2 * size)
    dist.all_gather_into_tensor(gathered, there(float(rank), 7.0))
    check(gathered, *(number for other in ranks for number in (other, 7.0)))
    parts = [there(-1.0) for _ in ranks]
    dist.all_gather(parts, there(float(rank)))
    for part, other in zip(parts, ranks):
        check(part, other)
    whole = there(*[-1.0] * size)
    whole[rank].copy_(torch.tensor(float(rank)))
    dist.all_gather_into_tensor(whole, whole[rank : rank + 1])  # as FSDP does: from a part of the output
    check(whole, *ranks)
    swapped = there(*[-1.0] * size)
    dist.all_to_all_single(swapped, there(*(10.0 * rank + other for other in ranks)))
    check(swapped, *(10.0 * other + rank for other in ranks))
    received = [there(-1.0) for _ in ranks]
    dist.all_to_all(received, [there(10.0 * rank + other) for other in ranks])
    for part, other in zip(received, ranks):
        check(part, 10.0 * other + rank)


def check_roots(rank, size):
    tensor = there(float(rank))
    dist.broadcast(tensor, 1)
    check(tensor, 1.0)
    parts = [there(-1.0) for _ in range(size)]
    dist.gather(there(float(rank)), parts if rank == 0 else None)
    if rank == 0:
        for other, part in enumerate(parts):
            check(part, other)
    dist.scatter(tensor, [there(5.0 + other) for other in range(size)] if rank == 0 else None)
    check(tensor, 5.0 + rank)


def check_messages(rank, size):
    left, right = (rank - 1) % size, (rank + 1) % size
    arrived = there(-1.0)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, there(float(rank)), right), dist.P2POp(dist.irecv, arrived, left)])
    for work in works:
        work.wait()
    check(arrived, left)
    if rank == 0:
        assert sorted(dist.recv(arrived) for _ in range(size - 1)) == list(range(1, size))  # from any rank
    else:
        dist.send(there(1.0), 0)


def check_works_that_nobody_waits_for(rank, size):
    """What is dropped comes to the device behind the next wait, as what a kernel is to do there."""
    gathered = there(*[-1.0] * size)
    dist.all_gather_into_tensor(gathered, there(float(rank)), async_op=True)
    parts = [there(-1.0) for _ in range(size)]
    dist.all_gather(parts, there(float(rank)), async_op=True)
    dist.barrier()
    work = dist.all_reduce(there(1.0), async_op=True)
    work.wait()
    check(work.result()[0], size)
    check(gathered, *range(size))
    for other, part in enumerate(parts):
        check(part, other)


def check_failures(rank, size):
    """What fails on this rank alone, or is no failure of the device, is told by its wait and by nothing later."""
    fits = there(*[-1.0] * size)
    work = dist.all_gather_into_tensor(fits if rank != 0 else there(*[-1.0] * (size + 1)), there(float(rank)), async_op=True)
    try:
        work.wait()
        assert rank != 0, "an output of the wrong size was filled"
        check(fits, *range(size))
    except ValueError:
        assert rank == 0
    for _ in range(2):
        try:
            hvd.allreduce(there(*[1.0] * (1 + rank)), name="differs")
            raise AssertionError("ranks differ, and nobody noticed")
        except MismatchError:
            session.current().kept.settle()


def check_lists(rank, size):
    """What arrives is kept until it has been dealt out, in whatever stream that is."""
    device = getattr(torch, stand_in_device.NAME)
    other, count = device.Stream(), 1000
    mine, spoilt = torch.full((count,), float(rank)).to(stand_in_device.NAME), torch.full((size * count,), -9.0).to(stand_in_device.NAME)
    other.wait_stream(device.current_stream())
    for _ in range(10):
        parts = [torch.zeros(count, device=stand_in_device.NAME) for _ in range(size)]
        with device.stream(other):
            work = dist.all_gather(parts, mine, async_op=True)
        for _ in range(30):  # this stream is behind
            spoilt.copy_(spoilt)
        work.wait()
        del work
        while session.current().kept._launched:
            session.current().kept.sweep()  # lets go of what has ended
        with device.stream(other):
            for _ in range(4):
                torch.empty(size * count, device=stand_in_device.NAME).copy_(spoilt)
        for number, part in enumerate(parts):
            assert part.cpu().tolist() == [float(number)] * count, (number, part)


def check_streams(rank, size):
    """An operation waits for the stream of its enqueue, each wait orders the stream that is current then, even if it is the
    second, and what is borrowed is kept until the device has finished. Each round gives a mistake a chance to show."""
    device = getattr(torch, stand_in_device.NAME)
    other, third, count = device.Stream(), device.Stream(), 1000
    sources = [torch.full((count,), float(rank + step)).to(stand_in_device.NAME) for step in range(10)]
    spoilt, numbers = torch.full((count,), -9.0).to(stand_in_device.NAME), torch.zeros(count, device=stand_in_device.NAME)
    other.wait_stream(device.current_stream())
    for step in range(10):
        expected = [(size - 1) / 2 + step] * count
        with device.stream(other):
            for _ in range(10):  # the stream is behind
                numbers.copy_(spoilt)
            numbers.copy_(sources[step])
            handle = hvd.allreduce_async_(numbers, op=hvd.Average, name="same")  # its name is free, although the device may be behind
        with device.stream(third):
            hvd.synchronize(handle)
        hvd.synchronize(handle)
        assert (numbers + 0.0).cpu().tolist() == expected, (step, numbers)
        with device.stream(other):
            borrowed = sources[step].clone()
            handle = hvd.allreduce_async(borrowed, op=hvd.Average)
        del borrowed
        again = hvd.synchronize(handle)
        with device.stream(other):  # takes the memory of what is borrowed, unless that is kept
            empty_ones = [torch.empty(count, device=stand_in_device.NAME) for _ in range(4)]
            for one in empty_ones:
                one.copy_(spoilt)
        assert again.cpu().tolist() == expected, (step, again)


def check_dialect(rank, size):
    hvd.init()
    total = float(sum(range(size)))
    handle = hvd.allreduce_async(there(float(rank)), op=hvd.Sum)
    assert (placed.place_in(handle) is not None) == stand_in_device.IS_REACHED
    check(hvd.synchronize(handle), total)
    check_streams(rank, size)
    check_lists(rank, size)
    check_failures(rank, size)
    check(hvd.allreduce(there(float(rank)), op=hvd.Sum), total)
    check(hvd.allreduce_(there(float(rank)), op=hvd.Max), size - 1.0)
    for tensor in hvd.grouped_allreduce_([there(1.0), there(2.0)], op=hvd.Sum):
        assert tensor.cpu().item() in (size, 2.0 * size)
    check(hvd.allgather(there(float(rank))), *range(size))
    check(hvd.broadcast(there(float(rank)), 1), 1.0)
    check(hvd.broadcast_(there(float(rank)), 1), 1.0)
    check(hvd.alltoall(there(*(10.0 * rank + other for other in range(size)))), *(10.0 * other + rank for other in range(size)))
    tensor = there(*(float(rank * part) for part in range(size)))
    check(hvd.reducescatter(tensor, op=hvd.Sum), rank * total)
    check(hvd.reducescatter_(tensor, op=hvd.Sum), rank * total)
    assert tensor[rank].cpu().item() == rank * total
    sent = hvd.send_async(there(float(rank)), (rank + 1) % size)
    check(hvd.recv(there(-1.0), (rank - 1) % size), (rank - 1) % size)
    hvd.synchronize(sent)


def check_bits(rank, size):
    """In deterministic mode sums and averages of floats have the bits that they have on the host."""
    if os.environ.get("RUEDA_DETERMINISTIC") != "1":
        return
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for count in (1, 7, 1000, 300_001):
            torch.manual_seed(1000 * count + rank)
            numbers = torch.randn(count).to(dtype)
            for op in (hvd.Sum, hvd.Average):
                on_host = hvd.allreduce(numbers, op=op)
                on_device = hvd.allreduce(numbers.to(stand_in_device.NAME), op=op).cpu()
                assert torch.equal(on_device, on_host), (dtype, count, op, on_device - on_host)


def main():
    dist.init_process_group("rueda")
    rank, size = dist.get_rank(), dist.get_world_size()
    stand_in_device.choose(rank)
    if not stand_in_device.IS_REACHED:
        check_that_nothing_is_done_unasked()
    for part in (check_reductions, check_rows, check_roots, check_messages, check_works_that_nobody_waits_for,
                 check_dialect, check_bits):  # fmt: skip
        part(rank, size)
    dist.destroy_process_group()
    print("ok")


main()
