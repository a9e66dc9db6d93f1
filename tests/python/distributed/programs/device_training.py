"""Training on a device equals training one model on the host with the joined batch, in both dialects. Usage: torchrun ...
device_training.py"""

import copy
import functools
import os

import rueda.torch as hvd
import stand_in_device
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
ROWS, STEPS = 4, 3


def normalized(normalization):
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.Unflatten(1, (6, 4)), normalization(6), torch.nn.ReLU(),
                               torch.nn.Flatten(), torch.nn.Linear(24, 5))  # fmt: skip


def perceptron():
    torch.manual_seed(4)
    return torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.ReLU(), torch.nn.Linear(12, 5))


def batch_of(step, size):
    """The joined batch of a step."""
    torch.manual_seed(100 + step)
    return torch.randn(size * ROWS, 8), torch.randint(5, (size * ROWS,))


def part(tensor, rank):
    return tensor[rank * ROWS : (rank + 1) * ROWS].to(stand_in_device.NAME)


def train(model, optimizer, size, rank=None):
    """Trains on the rank's part of each batch; None: on the whole of it."""
    device = next(model.parameters()).device
    for step in range(STEPS):
        images, labels = batch_of(step, size)
        if rank is not None:
            images, labels = part(images, rank).to(device), part(labels, rank).to(device)
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()


def check_equal(found, expected, tolerance=2e-5):
    """That the numbers of two lists of tensors are the same to rounding."""
    found = [tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor for tensor in found]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.detach().cpu(), other.detach(), rtol=tolerance, atol=tolerance)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def check_normalization(rank, size):
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12), (torch.bfloat16, 3e-2)):
        torch.manual_seed(7)
        joined, gradient = torch.randn(2, size * ROWS, 3, 5).to(dtype).mul(4).add(2)
        ordinary, synchronized = torch.nn.BatchNorm1d(3), hvd.SyncBatchNorm(3)
        if dtype == torch.float64:
            ordinary, synchronized = ordinary.double(), synchronized.double()
        synchronized.to(stand_in_device.NAME)
        whole, own = joined.clone().requires_grad_(), part(joined, rank).requires_grad_()
        expected, found = ordinary(whole), synchronized(own)
        assert found.device == own.device and found.dtype == dtype
        expected.backward(gradient)
        found.backward(part(gradient, rank))
        for mine, theirs in ((found, expected), (own.grad, whole.grad)):
            check_equal([mine], [theirs[rank * ROWS : (rank + 1) * ROWS]], tolerance)
        for mine, theirs in zip(synchronized.parameters(), ordinary.parameters()):
            check_equal([hvd.allreduce(mine.grad, op=hvd.Sum)], [theirs.grad], 10 * tolerance)
        check_equal(synchronized.buffers(), ordinary.buffers(), tolerance)


def check_gradients_of_collectives(rank, size):
    """Forward and backward there give the bits that they give on the host."""
    collectives = (functools.partial(hvd.allreduce, op=hvd.Average), hvd.allgather, functools.partial(hvd.broadcast, root_rank=1),
                   functools.partial(hvd.reducescatter, op=hvd.Sum), hvd.alltoall,
                   lambda tensor: torch.cat(hvd.grouped_allreduce([tensor, 2 * tensor], op=hvd.Sum)))  # fmt: skip
    for collective in collectives:
        results = []
        for device in ("cpu", stand_in_device.NAME):
            torch.manual_seed(rank)
            leaf = torch.randn(2 * size, 3).to(device).requires_grad_()
            output = collective(leaf * 3)
            output.backward(torch.randn(output.shape).to(device))
            results.append((output, leaf.grad))
        check_equal(results[1], results[0], 1e-6 if os.environ.get("RUEDA_NCCL") == "1" else 0)  # NCCL adds in its own order


def check_distributed_optimizer(rank, size):
    whole = normalized(torch.nn.BatchNorm1d)
    train(whole, sgd(whole), size)
    for options in ({}, {"num_groups": 2}, {"gradient_as_buffer_view": True}, {"gradient_predivide_factor": 2.0}):
        model = normalized(hvd.SyncBatchNorm).to(stand_in_device.NAME)
        with torch.no_grad():
            for tensor in model.parameters():
                tensor.add_(rank)  # broadcast_parameters() mends this
        hvd.broadcast_parameters(model.state_dict(), 0)
        optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), **options)
        train(model, optimizer, size, rank)
        check_equal(model.state_dict().values(), whole.state_dict().values())


def check_optimizer_state(rank, size):
    model = perceptron().to(stand_in_device.NAME)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (1 + rank))
    train(model, optimizer, size, rank)
    expected = copy.deepcopy(optimizer.state_dict())
    hvd.broadcast_optimizer_state(optimizer, 0)
    expected = hvd.broadcast_object(expected if rank == 0 else None, 0)
    assert optimizer.param_groups[0]["lr"] == 0.1
    for name, state in expected["state"].items():
        for key, value in state.items():
            found = optimizer.state_dict()["state"][name][key]
            assert found.device.type == value.device.type
            check_equal([found], [value.cpu()], 0)


def check_scaled_and_clipped_gradients(rank, size):
    whole = perceptron()
    expected = sgd(whole)
    model = perceptron().to(stand_in_device.NAME)
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), compression=hvd.Compression.fp16)
    scaler = torch.amp.GradScaler(stand_in_device.NAME, init_scale=8.0)
    for step in range(STEPS):
        images, labels = batch_of(step, size)
        expected.zero_grad()
        functional.cross_entropy(whole(images), labels).backward()
        torch.nn.utils.clip_grad_norm_(whole.parameters(), 0.5)
        expected.step()
        optimizer.zero_grad()
        scaler.scale(functional.cross_entropy(model(part(images, rank)), part(labels, rank))).backward()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()
    check_equal(model.parameters(), whole.parameters(), 5e-3)


def parameters_by_ddp(device, hook, state, options, rank, size):
    model = DistributedDataParallel(perceptron().to(device), **options)
    if hook is not None:
        model.register_comm_hook(state, hook)
    train(model, sgd(model), size, rank)
    return [parameter.detach().cpu() for parameter in model.parameters()]


def check_ddp(rank, size):
    """What hooks make of the gradients, some of it inexact, they make of those on the host, too."""
    whole = perceptron()
    train(whole, sgd(whole), size)
    hooks = [(None, None), (default_hooks.allreduce_hook, None), (default_hooks.fp16_compress_hook, None)]
    if not torch.cuda.is_available():  # else PyTorch's own hook refuses the buckets of the host, by torch.cuda.synchronize("cpu")
        hooks.append((powerSGD_hook.powerSGD_hook, functools.partial(powerSGD_hook.PowerSGDState, None, 4, start_powerSGD_iter=2)))
    for hook, state in hooks:
        for options in ({}, {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.0005}):
            found, expected = (parameters_by_ddp(device, hook, state and state(), options, rank, size)
                               for device in (stand_in_device.NAME, "cpu"))  # fmt: skip
            check_equal(found, expected)
            if state is None:
                check_equal(found, whole.parameters(), 5e-3)


def check_fsdp(rank, size):
    whole = perceptron()
    train(whole, sgd(whole), size)
    model = FullyShardedDataParallel(perceptron().to(stand_in_device.NAME), auto_wrap_policy=ModuleWrapPolicy({torch.nn.Linear}),
                                     device_id=torch.accelerator.current_device_index(), use_orig_params=True)  # fmt: skip
    train(model, sgd(model), size, rank)
    with FullyShardedDataParallel.summon_full_params(model):
        check_equal(model.parameters(), whole.parameters())
    model = perceptron().to(stand_in_device.NAME)
    mesh = dist.init_device_mesh(stand_in_device.NAME, (size,))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    train(model, sgd(model), size, rank)
    check_equal(model.parameters(), whole.parameters())


def check_tensor_parallel(rank, size):
    whole = perceptron()
    mesh = dist.init_device_mesh(stand_in_device.NAME, (size,))
    model = parallelize_module(perceptron().to(stand_in_device.NAME), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    images, labels = batch_of(0, size)
    functional.cross_entropy(whole(images), labels).backward()
    images, labels = images.to(stand_in_device.NAME), labels.to(stand_in_device.NAME)
    functional.cross_entropy(model(images), labels).backward()
    check_equal([parameter.grad for parameter in model.parameters()], [parameter.grad for parameter in whole.parameters()])


def check_errors(rank, size):
    tensor = torch.ones(3 + rank, device=stand_in_device.NAME)
    for reduce in (dist.all_reduce, functools.partial(hvd.allreduce_, name="uneven")):
        try:
            reduce(tensor)
        except RuntimeError as error:
            assert "shape" in str(error), error
        else:
            raise AssertionError("ranks agreed on tensors of different shapes")
    future = dist.all_reduce(tensor, async_op=True).get_future()
    try:
        future.wait()
    except RuntimeError as error:
        assert "shape" in str(error), error
    else:
        raise AssertionError("the future of an operation that failed has a value")
    dist.all_reduce(tensor := torch.ones(3, device=stand_in_device.NAME))
    check_equal([tensor], [torch.full((3,), float(size))])


def main():
    dist.init_process_group("rueda")
    rank, size = dist.get_rank(), dist.get_world_size()
    stand_in_device.choose(rank)
    hvd.init()
    for check in (check_normalization, check_gradients_of_collectives, check_distributed_optimizer, check_optimizer_state, check_scaled_and_clipped_gradients, check_ddp,
                  check_fsdp, check_tensor_parallel, check_errors):  # fmt: skip
        check(rank, size)
    dist.destroy_process_group()
    print("ok")


main()
