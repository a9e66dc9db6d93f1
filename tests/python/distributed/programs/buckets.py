"""Buckets of DistributedDataParallel whose gradients are views of them: reduced in shared memory, with the parameters of one process.
Usage: torchrun --nproc-per-node 2 ... buckets.py
"""

import contextlib
import gc

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from training_parts import close

import rueda.torch as hvd
from rueda.torch.distributed import bucket_memory

torch.set_num_threads(1)
STEPS, WIDTH = 6, 128  # a layer is long enough to be reduced in place
UNUSED = 2  # the number of the layer that some steps leave out


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.in_backward = None  # called when the gradients of all layers but the first are there
        self.layers = torch.nn.ModuleList([torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)])

    def forward(self, inputs, without=None):
        for number, layer in enumerate(self.layers):
            inputs = inputs if number == without else torch.tanh(layer(inputs))
            if number == 0 and self.in_backward is not None:
                inputs.register_hook(lambda _: self.in_backward())
        return inputs


def in_place():
    return sum(row["batches"] for row in hvd.stats()["algorithms"] if row["name"] == "shm_shared")


def held():
    return hvd.stats()["memory_bytes"]["shared_tensors"]


def rows(step, rank):
    return torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(100 * step + rank))


def loss_of(model, step, rank, **how):
    return model(rows(step, rank), **how).square().mean()


def in_turn(step):
    return step % 2 == 0


def alone(backward):
    """The parameters of one process that takes the steps of both ranks: backward(model, step, rank) for each."""
    return trained(Model(), lambda model, step: [backward(model, step, rank) for rank in range(2)], in_turn, scale=0.5)


def trained(model, gradients_of, drops, scale=1.0):
    """drops(step): whether gradients are set to None before the step, and not to zeros."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * scale, momentum=0.5)
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=drops(step))
        gradients_of(model, step)
        optimizer.step()
    return list(model.parameters())


def usual(model, step, rank):
    loss_of(model, step, rank).backward()


def check(backward=usual, prepare=None, moves=True, views=True, drops=in_turn, in_place_too=True, **how):
    """Trains with DDP, and compares the parameters and whether the buckets have moved."""
    before = in_place()
    ddp = DistributedDataParallel(Model(), gradient_as_bucket_view=views, **{"bucket_cap_mb": 0.15, **how})
    if prepare is not None:
        prepare(ddp)
    found = trained(ddp, lambda model, step: backward(model, step, dist.get_rank()), drops)
    assert close(found, alone(backward)), (views, how)
    memories = {each.grad.untyped_storage().data_ptr() for each in ddp.parameters()}
    assert memories & bucket_memory._placed == (memories if moves else set()), (views, how)
    assert not moves or (in_place() > before) == in_place_too


def unsynchronized(model, step, rank):
    with model.no_sync() if isinstance(model, DistributedDataParallel) else contextlib.nullcontext():
        usual(model, step, rank)


def check_several_passes():
    def twice(model, step, rank):
        unsynchronized(model, step, rank)
        usual(model, step + 50, rank)

    check(twice)


def check_unused_parameters():
    def some(model, step, rank):
        loss_of(model, step, rank, without=UNUSED if step in (2, 4) else None).backward()

    check(some, find_unused_parameters=True)


def check_hooks():
    """A hook that holds another tensor over the bucket's memory keeps the bucket where it is."""

    def hook(_, bucket):
        flat = holds(bucket.buffer())
        dist.all_reduce(bucket.buffer(), op=dist.ReduceOp.AVG)
        future = torch.futures.Future()
        future.set_result(flat.view(-1) if isinstance(flat, torch.Tensor) else bucket.buffer())
        return future

    for holds in (lambda buffer: buffer.view(-1, WIDTH), lambda buffer: buffer.untyped_storage()):
        check(prepare=lambda ddp: ddp.register_comm_hook(None, hook), moves=False, bucket_cap_mb=1)
    check(prepare=lambda ddp: ddp.register_comm_hook(None, allreduce_hook))


def check_gradients_that_are_no_views_of_the_bucket():
    """A gradient that the program has replaced by another tensor over the same memory does not move, and so the bucket stays."""

    def replaced(model, step, rank):
        unsynchronized(model, step, rank)
        for each in model.parameters():
            each.grad = each.grad.detach()
        usual(model, step + 50, rank)

    check(replaced, moves=False)


def check_memory_that_something_else_uses():
    """In the middle of each backward pass the program keeps arrays or parts of a gradient. They show it as long as it lies there."""
    for kept_of in (lambda gradient: gradient.numpy(), lambda gradient: gradient[1:], lambda gradient: gradient.detach()):
        kept = []

        def prepare(ddp, kept=kept, kept_of=kept_of):
            ddp.module.in_backward = lambda: kept.append(kept_of(ddp.module.layers[2].weight.grad))

        check(prepare=prepare, moves=False, bucket_cap_mb=1)
        assert len(kept) == STEPS


def check_one_rank_alone_moves():
    """Rank 1 keeps an array, so the batches of both go the usual way."""

    def prepare(ddp):
        if dist.get_rank() == 1:
            kept = []
            ddp.module.in_backward = lambda: kept.append(ddp.module.layers[2].weight.grad.numpy())

    check(prepare=prepare, moves=dist.get_rank() == 0, in_place_too=False, bucket_cap_mb=1)


def check_many_other_tensors_before():
    other = torch.ones(WIDTH * WIDTH)
    check(prepare=lambda ddp: [dist.all_reduce(other) for _ in range(100)])


def check_uneven_inputs():
    """Rank 1 takes two steps more than rank 0, alone. Both end with the parameters of one process that takes all of these steps."""

    def take(model, steps, gradients_of):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(steps):
            optimizer.zero_grad()
            gradients_of(step)
            optimizer.step()
        return model.parameters()

    ddp, whole = DistributedDataParallel(Model(), gradient_as_bucket_view=True, bucket_cap_mb=0.15), Model()
    with Join([ddp]):
        found = take(ddp, 3 + 2 * dist.get_rank(), lambda step: usual(ddp, step, dist.get_rank()))
    everyones = take(whole, 5, lambda step: [(loss_of(whole, step, rank) / 2).backward() for rank in range(2) if step < 3 + 2 * rank])
    assert close(found, everyones)


def check_memory_goes_with_the_model():
    gc.collect()
    before = held()
    ddp = DistributedDataParallel(Model(), gradient_as_bucket_view=True)
    for step in range(3):
        usual(ddp, step, dist.get_rank())
    bytes_of_gradients = sum(each.grad.nbytes for each in ddp.parameters())
    assert bytes_of_gradients <= held() - before < 1.5 * bytes_of_gradients, (before, held(), bytes_of_gradients)
    del ddp
    gc.collect()
    assert held() == before, (before, held())


def check_tensors_of_a_program_stay():
    tensor = torch.full((WIDTH * WIDTH,), float(dist.get_rank()))
    address = tensor.data_ptr()
    for _ in range(3):
        dist.all_reduce(tensor)
    assert tensor.data_ptr() == address


def watched():
    gc.collect()
    return set(bucket_memory._reducers)


if __name__ == "__main__":
    dist.init_process_group("rueda")
    before = watched()  # of other programs in this process
    check()
    check(views=False, moves=False)
    check(static_graph=True)
    check_several_passes()
    check_unused_parameters()
    check_hooks()
    check_gradients_that_are_no_views_of_the_bucket()
    check_memory_that_something_else_uses()
    check_one_rank_alone_moves()
    check_many_other_tensors_before()
    check_uneven_inputs()
    check_memory_goes_with_the_model()
    check_tensors_of_a_program_stay()
    assert watched() <= before
    dist.destroy_process_group()
