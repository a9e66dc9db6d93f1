"""What else runs over torch.distributed gives what a single process gives. Usage: torchrun --nproc-per-node 2 ... parallelism.py"""

import copy
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from training_parts import close, loss_of, make_model, part, rows

torch.set_num_threads(1)


def reference(make_optimizer, steps):
    """The parameters after some steps of one process with the joined batch."""
    model = make_model()
    optimizer = make_optimizer(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, *rows(step)).backward()
        optimizer.step()
    return list(model.parameters())


def check_zero_redundancy():
    model = DistributedDataParallel(make_model())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        loss_of(model, *map(part, rows(step))).backward()
        optimizer.step()
    assert close(model.parameters(), reference(lambda p: torch.optim.Adam(p, lr=0.01), 3))
    optimizer.consolidate_state_dict(to=0)
    assert dist.get_rank() != 0 or len(optimizer.state_dict()["state"]) == len(list(model.parameters()))


def check_compiled_data_parallel():
    model = DistributedDataParallel(make_model())
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss_of(compiled, *map(part, rows(step))).backward()
        optimizer.step()
    assert close(model.parameters(), reference(lambda p: torch.optim.SGD(p, lr=0.1), 3))


def check_tensors_in_parts(mesh):
    whole = torch.arange(24.0).reshape(6, 4)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(sharded.to_local(), part(whole))
    assert torch.equal(sharded.redistribute(mesh, [Shard(1)]).to_local(), whole.chunk(2, dim=1)[dist.get_rank()])
    assert torch.equal(sharded.redistribute(mesh, [Replicate()]).to_local(), whole)
    assert torch.equal((sharded @ distribute_tensor(whole.t(), mesh, [Replicate()])).full_tensor(), whole @ whole.t())
    assert sharded.sum().full_tensor() == whole.sum()


def check_layers_in_parts(mesh):
    model = make_model()
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    split = parallelize_module(copy.deepcopy(model), mesh, plan)
    inputs, targets = rows(0)
    for each in (model, split):
        loss_of(each, inputs, targets).backward()
    assert close([p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad for p in split.parameters()],
                 [p.grad for p in model.parameters()])  # fmt: skip


def check_layers_one_after_the_other():
    model, inputs, targets = make_model(), *rows(0)
    stages = [model[:2], model[2:]]
    rank = dist.get_rank()
    stage = PipelineStage(copy.deepcopy(stages[rank]), rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss)
    losses = []
    if rank == 0:
        schedule.step(inputs)
    else:
        output = schedule.step(target=targets, losses=losses)
        assert torch.allclose(output, model(inputs), atol=1e-6)
        assert torch.allclose(torch.stack(losses).mean(), loss_of(model, inputs, targets))
    loss_of(model, inputs, targets).backward()
    assert close([p.grad for p in stage.submod.parameters()], [p.grad for p in stages[rank].parameters()])


def check_coalesced():
    rank, size = dist.get_rank(), dist.get_world_size()
    gathered = [torch.zeros(size * 2), torch.zeros(size)]
    with dist._coalescing_manager(async_ops=True) as works:
        for whole in gathered:
            dist.all_gather_into_tensor(whole, torch.full((whole.numel() // size,), float(rank)))
    works.wait()
    assert [whole.tolist() for whole in gathered] == [[0.0, 0.0, 1.0, 1.0], [0.0, 1.0]]
    parts = [torch.zeros(2), torch.zeros(3)]
    with dist._coalescing_manager():
        for own in parts:
            dist.reduce_scatter_tensor(own, torch.arange(float(own.numel() * size)))
    assert [own.tolist() for own in parts] == [[2.0 * (2 * rank + i) for i in range(2)], [2.0 * (3 * rank + i) for i in range(3)]]


def every_functional(tensor):
    group = dist.group.WORLD
    summed = functional.all_reduce(tensor, "sum", group)
    gathered = functional.all_gather_tensor(summed, 0, group)
    own = functional.reduce_scatter_tensor(gathered, "sum", 0, group)
    exchanged = functional.all_to_all_single(own, None, None, group)
    both = functional.all_gather_into_tensor_coalesced([exchanged, summed], group)
    return functional.broadcast(both[0] + both[1], 1, group) + 0


def check_functional():
    tensor = torch.full((4,), float(dist.get_rank() + 1))
    eager = every_functional(tensor)
    assert torch.equal(eager, torch.full((8,), 9.0)), eager
    assert torch.equal(torch.compile(every_functional, backend="aot_eager", fullgraph=True)(tensor), eager)


def check_monitored_barrier():
    dist.monitored_barrier()
    with_libuv = os.environ.get("USE_LIBUV") != "0"  # which Debian's PyTorch is built without
    told = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, use_libuv=with_libuv)
    if dist.get_rank() == 0:
        try:
            dist.monitored_barrier(timeout=timedelta(seconds=1))
            raise AssertionError("no rank was missed")
        except TimeoutError as error:
            assert "[1] did not come within 1 s of rank 0" in str(error), error
        told.set("rueda.test.missed", "1")
    else:
        told.wait(["rueda.test.missed"])
        try:
            dist.monitored_barrier(timeout=timedelta(seconds=60))
            raise AssertionError("rank 1 was in time")
        except TimeoutError as error:
            assert "[1] did not come" in str(error), error
    dist.monitored_barrier(wait_all_ranks=True)


def check_timeouts():
    """One rank begins what the other never does."""
    ones = torch.ones(1)
    hasty = dist.new_group(timeout=timedelta(milliseconds=100))
    for begin in (lambda: dist.all_reduce(ones, group=hasty), lambda: dist.recv(ones, 1, group=hasty),
                  lambda: dist.group.WORLD.allreduce(ones, timeout=timedelta(milliseconds=100)).wait()):  # fmt: skip
        if dist.get_rank() == 0:
            try:
                begin()
                raise AssertionError("rank 1 never begins it")
            except RuntimeError as error:
                assert "within its timeout (0.1 s)" in str(error), error
    hasty.set_timeout(timedelta(minutes=5))
    dist.barrier()  # after what has failed
    if dist.get_rank() == 1:
        for end in (lambda: dist.all_reduce(ones, group=hasty), lambda: dist.send(ones, 0, group=hasty), lambda: dist.all_reduce(ones)):
            try:
                end()
                raise AssertionError("rank 0 has given it up")
            except RuntimeError as error:
                assert "within its timeout (0.1 s)" in str(error), error
    dist.all_reduce(ones, group=hasty)
    assert ones.item() == 2, ones


def main():
    dist.init_process_group("rueda")
    mesh = init_device_mesh("cpu", (2,))
    check_zero_redundancy()
    check_compiled_data_parallel()
    check_tensors_in_parts(mesh)
    check_layers_in_parts(mesh)
    check_layers_one_after_the_other()
    check_coalesced()
    check_functional()
    check_monitored_barrier()
    check_timeouts()
    try:
        dist.new_group([1, 0], sort_ranks=False)
        raise AssertionError("groups in another order are not refused")
    except ValueError as error:
        assert "ascending" in str(error), error
    dist.destroy_process_group()
    print("ok", flush=True)
    sys.stdout.flush()


main()
