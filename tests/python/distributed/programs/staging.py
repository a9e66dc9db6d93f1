"""FullyShardedDataParallel with staging buffers of the process group: gathered and reduced where they lie, with the parameters
that other buffers give. Usage: torchrun --nproc-per-node 2 ... staging.py
"""

import gc

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from training_parts import close

import rueda.torch as hvd
from rueda import tensor_memory
from rueda.torch.distributed import allocations

torch.set_num_threads(1)


def in_place():
    return sum(row["batches"] for row in hvd.stats()["algorithms"] if row["name"] == "shm_shared")


def budget_ends_once():
    """The next block is refused; the pool gives up what it keeps, and the second attempt gets it."""
    once = tensor_memory._take_once

    def refused(size):
        tensor_memory._take_once = once
        raise hvd.HorovodInternalError("no room")

    tensor_memory._take_once = refused


def trained(from_group):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128))
    for layer in (model[0], model[2], model):
        fully_shard(layer)
        layer.set_allocate_memory_from_process_group_for_comm(from_group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        torch.manual_seed(10 * step + dist.get_rank())
        model(torch.randn(4, 128)).square().mean().backward()
        optimizer.step()
    return [parameter.full_tensor() for parameter in model.parameters()]


def check_pool():
    """A buffer that is dropped comes again, also after the sizes have changed; a device without memory of the host gets none."""
    first = allocations.allocate(10_000, torch.float32)
    address = first.data_ptr()
    del first
    gc.collect()
    again = allocations.allocate(10_000, torch.float32)
    assert again.data_ptr() == address
    taken = []
    take = tensor_memory._take
    tensor_memory._take = lambda size: taken.append(size) or take(size)
    for _ in range(4):  # the block of the first size makes room, so that one of the second is kept
        del again
        gc.collect()
        again = allocations.allocate(9_000, torch.float32)
    tensor_memory._take = take
    assert taken == [4 * 9_000]
    del again
    gc.collect()
    budget_ends_once()
    assert hvd.zeros(10).numel() == 10 and allocations._pool._kept == 0
    assert not dist.group.WORLD.supports_tensor_alloc(torch.device("meta"))


dist.init_process_group("rueda")
before = in_place()
usual = trained(False)
usual_in_place = in_place() - before
assert close(trained(True), usual)
# Each of four steps gathers and reduces three parts of the model; without the group's buffers it only gathers in place.
assert in_place() - before - usual_in_place > usual_in_place > 0, (before, usual_in_place, in_place())
check_pool()
dist.destroy_process_group()
