"""Functions of both dialects on a device that devices.py does not call, and what works, sets and device_id= promise there.
Usage: torchrun ... device_functions.py"""

import copy
import os
from datetime import timedelta

import rueda.torch as hvd
import stand_in_device
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.nn.parallel import DistributedDataParallel
from training_parts import close, loss_of, make_model, part, rows

torch.set_num_threads(1)
COUNT = 4_000_000 if stand_in_device.NAME == "cuda" else 1000  # what keeps a device busy after the launch


def there(*numbers):
    return torch.tensor([float(number) for number in numbers], device=stand_in_device.NAME)


def check(tensor, *numbers):
    assert tensor.device.type == stand_in_device.NAME
    assert tensor.cpu().tolist() == list(numbers), (tensor.cpu().tolist(), numbers)


def check_rows_of_the_dialect(rank, size):
    first, second = hvd.grouped_allgather([there(rank), there(10 + rank)])
    check(first, *range(size))
    check(second, *(10 + other for other in range(size)))
    ones, twos = hvd.grouped_reducescatter([there(*[1] * size), there(*[2] * size)], op=hvd.Sum)
    check(ones, size)
    check(twos, 2 * size)
    check(hvd.allgather(there(*[rank] * (rank + 1))), *(float(other) for other in range(size) for _ in range(other + 1)))
    # Rank r sends r + 1 numbers to each rank.
    splits = torch.tensor([rank + 1] * size)
    received, counts = hvd.alltoall(there(*[rank] * (size * (rank + 1))), splits=splits)
    check(received, *(float(other) for other in range(size) for _ in range(other + 1)))
    assert counts.tolist() == [other + 1 for other in range(size)]
    handle = hvd.broadcast_async_(tensor := there(rank), 1)
    hvd.synchronize(handle)
    check(tensor, 1)
    check(hvd.synchronize(hvd.reducescatter_async_(there(*[1] * size), op=hvd.Sum)), size)


def check_reductions_of_the_dialect(rank, size):
    torch.manual_seed(rank)
    numbers = torch.randn(37)
    for options in ({"op": hvd.Adasum}, {"op": hvd.Average, "compression": hvd.Compression.bf16}):
        found = hvd.allreduce(numbers.to(stand_in_device.NAME), **options)
        torch.testing.assert_close(found.cpu(), hvd.allreduce(numbers, **options), rtol=1e-2, atol=1e-2)


def check_join(rank, size):
    """A rank that has joined brings zeros, and the last one is told to all."""
    for step in range(rank + 1):
        check(hvd.allreduce(there(1), op=hvd.Sum, name=f"uneven.{step}"), size - step)
    assert hvd.join() == size - 1


def check_optimizers(rank, size):
    for options in ({"op": hvd.Adasum}, {"backward_passes_per_step": 2}):
        weights = []
        for device in ("cpu", stand_in_device.NAME):
            weight = torch.nn.Parameter(torch.ones(5).to(device))
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=0.1), [("weight", weight)], **options)
            for _ in range(options.get("backward_passes_per_step", 1)):
                (weight * (rank + 1)).sum().backward()
            optimizer.step()
            weights.append(weight.detach().cpu())
        torch.testing.assert_close(weights[0], weights[1])


def check_rows_of_pytorch(rank, size):
    parts = [there(*[-1] * (other + 1)) for other in range(size)]
    dist.all_gather(parts, there(*[rank] * (rank + 1)))
    for other, part in enumerate(parts):
        check(part, *[other] * (other + 1))
    received = there(*[-1] * (size * (size + 1) // 2))
    dist.all_to_all_single(received, there(*[rank] * (size * (rank + 1))), [other + 1 for other in range(size)], [rank + 1] * size)
    check(received, *(float(other) for other in range(size) for _ in range(other + 1)))
    sums = [there(rank), there(2 * rank)]
    with dist._coalescing_manager(async_ops=True) as works:
        for each in sums:
            dist.all_reduce(each)
    works.wait()
    check(sums[1], 2 * sum(range(size)))
    check(functional.all_gather_tensor(there(rank), 0, dist.group.WORLD) + 0, *range(size))
    check(functional.all_reduce(there(1), "sum", dist.group.WORLD) + 0, size)
    dist.broadcast_object_list(objects := [rank, "text"], src=1)
    assert objects == [1, "text"]
    dist.monitored_barrier()


def check_long_messages(rank, size):
    """All ranks send to the next one and receive from the last one, more than a connection holds."""
    numbers = torch.full((300_000,), float(rank)).to(stand_in_device.NAME)
    arrived = torch.empty_like(numbers)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, numbers, (rank + 1) % size), dist.P2POp(dist.irecv, arrived, (rank - 1) % size)])
    for work in works:
        work.wait()
    assert set(arrived.cpu().tolist()) == {float((rank - 1) % size)}


def check_sets_that_go_at_once(rank, size):
    """A set may be removed once its operations have been waited for, although the device may still be busy with them."""
    for _ in range(10):
        members = hvd.add_process_set(range(size))
        check(hvd.allreduce(there(1), op=hvd.Sum, process_set=members), size)
        handle = hvd.allreduce_async(there(*[1] * 1000), op=hvd.Sum, process_set=members)
        hvd.synchronize(handle)
        assert hvd.remove_process_set(members)
        group = dist.new_group(list(range(size)))
        dist.all_reduce(tensor := there(1), group=group)
        known = group._set
        dist.destroy_process_group(group)
        assert known.process_set_id is None, "the group's process set is still there"
        check(tensor, size)


def check_works(rank, size):
    """A work is completed once the device has finished, which is after its wait; a wait with a timeout waits for that."""
    numbers, others, late = torch.zeros(COUNT, device=stand_in_device.NAME), torch.zeros(COUNT, device=stand_in_device.NAME), 0
    for _ in range(50):
        for _ in range(50):  # the stream is behind
            numbers.copy_(others)
        work = dist.all_reduce(numbers, async_op=True)
        future = work.get_future()
        work.wait()
        assert future.done()
        late += not work.is_completed()
        while not work.is_completed():
            pass
        assert work.is_success()
    if stand_in_device.NAME != "cuda" or os.environ.get("RUEDA_NCCL") != "0":  # else a GPU has but one copy left
        assert late > 0, "works are completed before the device has finished"
    work = dist.all_reduce(numbers, async_op=True)
    work.wait(timedelta(seconds=60))
    assert work.is_completed()


def check_device_id(rank, size):
    world = dist.group.WORLD
    if not hasattr(world, "bound_device_id"):  # PyTorch before 2.3
        return
    assert world.bound_device_id == torch.device(stand_in_device.NAME, torch.accelerator.current_device_index())
    assert [device.type for device in world._device_types] == ["cpu", stand_in_device.NAME]
    try:
        dist.split_group(None, [[other] for other in range(size)])
    except RuntimeError as error:
        assert "new_group" in str(error), error
    else:
        raise AssertionError("a group is split")


def check_zero_redundancy(rank, size):
    model = DistributedDataParallel(make_model().to(stand_in_device.NAME))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    whole = make_model()
    expected = torch.optim.Adam(whole.parameters(), lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        loss_of(model, *(part(each).to(stand_in_device.NAME) for each in rows(step))).backward()
        optimizer.step()
        expected.zero_grad()
        loss_of(whole, *rows(step)).backward()
        expected.step()
    assert close([parameter.cpu() for parameter in model.parameters()], whole.parameters())
    optimizer.consolidate_state_dict(to=0)
    assert rank != 0 or len(optimizer.state_dict()["state"]) == len(list(model.parameters()))


def check_pipeline(rank, size):
    model, inputs, targets = make_model(), *rows(0)
    stages = [model[:2], model[2:]]
    stage = PipelineStage(copy.deepcopy(stages[rank]).to(stand_in_device.NAME), rank, 2, torch.device(stand_in_device.NAME))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss)
    if rank == 0:
        schedule.step(inputs.to(stand_in_device.NAME))
    else:
        output = schedule.step(target=targets.to(stand_in_device.NAME), losses=[])
        assert torch.allclose(output.cpu(), model(inputs), atol=1e-6)
    loss_of(model, inputs, targets).backward()
    assert close([p.grad.cpu() for p in stage.submod.parameters()], [p.grad for p in stages[rank].parameters()])


def main():
    rank = int(os.environ["RANK"])
    stand_in_device.choose(rank)
    dist.init_process_group("rueda", device_id=torch.device(stand_in_device.NAME, torch.accelerator.current_device_index()))
    size = dist.get_world_size()
    hvd.init()
    assert (hvd.nccl_built() > 0) == (os.environ.get("RUEDA_NCCL_LIBRARY") is not None or stand_in_device.NAME == "cuda")
    for check_one in (check_device_id, check_rows_of_the_dialect, check_reductions_of_the_dialect, check_join, check_optimizers,
                 check_rows_of_pytorch, check_long_messages, check_sets_that_go_at_once, check_works, check_zero_redundancy,
                 check_pipeline):  # fmt: skip
        check_one(rank, size)
    dist.destroy_process_group()
    print("ok")


main()
