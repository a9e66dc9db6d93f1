"""A refused operation says why. If one rank alone is refused, later operations still match. Usage: torchrun ... refusals.py"""

import torch
import torch.distributed as dist

torch.set_num_threads(1)


def check_refused(call, *arguments, says, **how):
    """The call raises ValueError with these words."""
    try:
        call(*arguments, **how)
    except ValueError as error:
        assert all(word in str(error) for word in says), error
    else:
        raise AssertionError(f"{call} was not refused")


def column():
    return torch.ones(4, 2)[:, 0]


def check_messages_after_refused_ones(rank):
    received = torch.zeros(4)
    if rank == 0:
        check_refused(dist.send, column(), 1, tag=3, says=["not contiguous"])
        dist.send(torch.full((4,), 5.0), 1, tag=3)
        dist.send(torch.full((4,), 6.0), 1, tag=3)
    elif rank == 1:
        dist.recv(received, 0, tag=3)
        assert torch.equal(received, torch.full((4,), 5.0))
        check_refused(dist.recv, column(), 0, tag=3, says=["not contiguous"])
        dist.recv(received, 0, tag=3)
        assert torch.equal(received, torch.full((4,), 6.0))


def check_callbacks_after_a_refused_operation(rank, size):
    if rank == 0:
        check_refused(dist.all_reduce, column(), says=["not contiguous"])
    future = dist.all_reduce(torch.ones(2), async_op=True).get_future()

    def again(done):
        if rank == 0:  # in a callback as well
            check_refused(dist.all_reduce, column(), says=["not contiguous"])
        return dist.all_reduce(done.value()[0].clone(), async_op=True).get_future().wait()

    assert future.then(again).wait()[0].tolist() == [size * size] * 2


def check_devices(rank, size):
    """Tensors without numbers are refused for their device, on all ranks here, by whatever takes tensors."""
    meta, here = torch.empty(2, device="meta"), torch.empty(2)
    metas, heres = [torch.empty(2, device="meta") for _ in range(size)], [torch.empty(2) for _ in range(size)]
    first, other = rank == 0, (rank + 1) % size
    calls = {
        "all_reduce": [(dist.all_reduce, meta)],
        "broadcast": [(dist.broadcast, meta, 0)],
        "reduce": [(dist.reduce, meta, 0)],
        "all_gather": [(dist.all_gather, heres, meta), (dist.all_gather_into_tensor, torch.empty(2 * size), meta),
                       (dist.all_gather_into_tensor, torch.empty(2 * size, device="meta"), here)],
        "reduce_scatter": [(dist.reduce_scatter, here, metas), (dist.reduce_scatter, meta, heres),
                           (dist.reduce_scatter_tensor, here, torch.empty(2 * size, device="meta"))],
        "all_to_all": [(dist.all_to_all, heres, metas),
                       (dist.all_to_all_single, torch.empty(size), torch.empty(size, device="meta"))],
        "gather": [(dist.gather, meta, heres if first else None)],
        "scatter": [(dist.scatter, meta, metas if first else None)],
        "send": [(dist.send, meta, other)],
        "recv": [(dist.recv, meta, other)],
    }  # fmt: skip
    for name, ways in calls.items():
        for call, *arguments in ways:
            check_refused(call, *arguments, says=[f"rank {rank}: {name} of a tensor of shape [", "on meta, which stores no numbers"])
    dist.all_reduce(here)  # no rank is a number ahead


def check_callbacks_that_are_none():
    for attach in (torch.futures.Future().then, torch.futures.Future().add_done_callback):
        try:
            attach("x")
        except TypeError as error:
            assert "incompatible function arguments" in str(error)
        else:
            raise AssertionError(f"{attach} took a string")


def main():
    dist.init_process_group("rueda")
    rank, size = dist.get_rank(), dist.get_world_size()
    check_messages_after_refused_ones(rank)
    check_callbacks_after_a_refused_operation(rank, size)
    check_devices(rank, size)
    check_callbacks_that_are_none()
    dist.destroy_process_group()
    print("ok")


main()
