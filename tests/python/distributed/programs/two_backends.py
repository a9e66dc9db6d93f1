"""Groups of Rueda's and of another backend: tensors go to the one that serves their device, and all results are right.
Usage: torchrun ... two_backends.py BACKENDS DEVICE OURS; OURS says whether Rueda serves the device"""

import sys

import torch
import torch.distributed as dist

if sys.argv[2] != "cpu":
    import stand_in_device

torch.set_num_threads(1)


def collectives(group, rank, size, device):
    """Each kind of operation on the device."""
    total, ranks = float(sum(range(size))), [float(other) for other in range(size)]

    def there(*numbers):
        return torch.tensor(numbers, device=device)

    def check(tensor, *numbers):
        assert tensor.device.type == device and tensor.cpu().tolist() == list(numbers), (tensor.cpu().tolist(), numbers)

    tensor = there(float(rank), 1.0)
    work = dist.all_reduce(tensor, group=group, async_op=True)
    work.wait()
    check(tensor, total, size)
    tensor = there(float(rank))
    dist.broadcast(tensor, size - 1, group=group)
    check(tensor, size - 1.0)
    gathered = there(*[-1.0] * size)
    dist.all_gather_into_tensor(gathered, there(float(rank)), group=group)
    check(gathered, *ranks)
    parts = [there(-1.0) for _ in ranks]
    dist.all_gather(parts, there(float(rank)), group=group)
    check(torch.cat(parts), *ranks)
    share = there(-1.0)
    dist.reduce_scatter_tensor(share, there(*(rank * part for part in ranks)), group=group)
    check(share, rank * total)
    dealt = there(*[-1.0] * size)
    dist.all_to_all_single(dealt, there(*(10.0 * rank + part for part in ranks)), group=group)
    check(dealt, *(10 * other + rank for other in ranks))
    parts = [there(-1.0) for _ in ranks] if rank == 0 else None
    dist.gather(there(float(rank)), parts, 0, group=group)
    if rank == 0:
        check(torch.cat(parts), *ranks)
    dist.scatter(share, [there(other) for other in ranks] if rank == 0 else None, 0, group=group)
    check(share, rank)
    if rank == 0:
        dist.send(there(7.0), 1, group=group)
    elif rank == 1:
        dist.recv(share, 0, group=group)
        check(share, 7.0)


def begun(group):
    """Operations of Rueda's that the group has begun."""
    return group._get_sequence_number_for_group()


def use(group, device, ours):
    """Operations of the group, and who runs them."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    before = begun(group)
    collectives(group, rank, size, device)
    assert (begun(group) > before) == ours, (begun(group), before, ours)
    assert group._get_backend(torch.device(device)).name() == ("rueda" if ours else "gloo")
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank}, group=group)
    assert objects == [{"rank": other} for other in range(size)]
    before = begun(group)
    dist.barrier(group)
    assert begun(group) == before + 1


def train(device, ours):
    """DDP reduces gradients where the model is."""
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 2).to(device)
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    before = begun(dist.group.WORLD)
    ddp(torch.full((3, 4), float(dist.get_rank()), device=device)).sum().backward()
    assert (begun(dist.group.WORLD) > before) == ours
    mean = 3.0 * sum(range(dist.get_world_size())) / dist.get_world_size()
    torch.testing.assert_close(model.weight.grad.cpu(), torch.full((2, 4), mean))


def main():
    backends, device, ours = sys.argv[1], sys.argv[2], sys.argv[3] == "ours"
    dist.init_process_group(backends)
    rank = dist.get_rank()
    if device != "cpu":
        stand_in_device.choose(rank)
    for where, is_ours in [(device, ours)] + ([("cpu", not ours)] if device != "cpu" else []):
        use(dist.group.WORLD, where, is_ours)
        train(where, is_ours)
    pair = dist.new_group([0, 1])
    if rank < 2:
        use(pair, device, ours)
        dist.destroy_process_group(pair)
    alone = dist.new_group(backend="gloo")
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=alone)
    assert tensor.item() == dist.get_world_size()
    dist.destroy_process_group()
    print(f"rank {rank} ok\n", end="", flush=True)


main()
