"""Averages of DistributedDataParallel's gradients: made while they are summed, unless the program has a hook of its own.
Usage: torchrun --nproc-per-node 2 ... averages.py
"""

import gc

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from rueda.torch.distributed import averages

torch.set_num_threads(1)
LEAST = 2.0**-149  # of fp32. PyTorch's division by 2 rounds it to 0, and so does every rank's before the sum.


class Given(torch.autograd.Function):
    """A loss with the given number in every gradient."""

    @staticmethod
    def forward(ctx, parameter, number):
        ctx.number, ctx.like = number, parameter.detach()
        return parameter.new_zeros(())

    @staticmethod
    def backward(ctx, _):
        return torch.full_like(ctx.like, ctx.number), None


class Model(torch.nn.Module):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.parts = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(300, dtype=dtype)) for _ in range(3)])

    def forward(self, number):
        return sum(Given.apply(part, number) for part in self.parts)


def wrapped(dtype=torch.float32, **how):
    return DistributedDataParallel(Model(dtype), bucket_cap_mb=0.001, **how)


def reduced(ddp, number):
    """What the gradients are after a step in which this rank's are `number`."""
    ddp.zero_grad()
    ddp(number).backward()
    found = torch.cat([each.grad for each in ddp.parameters()]).unique()
    assert found.numel() == 1, found
    return found.item()


def counting():
    """A program's hook, which sums, and the numbers of the buckets that it was called for."""
    buckets = []

    def hook(state, bucket):
        buckets.append(bucket.index())
        assert state == "state"
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda future: future.value()[0])

    return hook, buckets


def check_averages():
    for views in (False, True):
        ddp = wrapped(gradient_as_bucket_view=views)
        for _ in range(3):  # buckets are made anew after the first step
            assert reduced(ddp, LEAST) == LEAST
        assert reduced(ddp, float(dist.get_rank())) == 0.5
        for dtype, large in ((torch.float16, 60000.0), (torch.bfloat16, 1e38), (torch.float64, 1e300)):
            ddp = wrapped(dtype, gradient_as_bucket_view=views)
            large = torch.tensor(large, dtype=dtype).item()  # rounded
            assert reduced(ddp, large) == large and reduced(ddp, 3.0 * dist.get_rank()) == 1.5


def refuses_another(ddp):
    try:
        ddp.register_comm_hook("state", counting()[0])
    except RuntimeError as error:
        return "once" in str(error)
    return False


def check_programs_hooks():
    """A program may register one hook, before the first step or later."""
    for earlier in (True, False):
        (hook, buckets), ddp = counting(), wrapped()
        assert earlier or reduced(ddp, 3.0) == 3
        ddp.register_comm_hook("state", hook)
        for _ in range(3):
            assert reduced(ddp, 3.0) == 6 and buckets
            assert refuses_another(ddp)
            buckets.clear()


def check_other_hooks():
    """So may it register PyTorch's, which divide before they sum, and one that this backend does not see."""
    (hook, buckets), ddp = counting(), wrapped()
    torch._C._distributed_c10d._register_comm_hook(ddp.reducer, "state", hook)
    assert reduced(ddp, 3.0) == 6 and reduced(ddp, 3.0) == 6 and len(buckets) > 1

    for register in (lambda ddp: ddp.register_comm_hook(None, allreduce_hook),
                     lambda ddp: ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)):  # fmt: skip
        ddp = wrapped()
        assert reduced(ddp, LEAST) == LEAST
        register(ddp)
        assert reduced(ddp, LEAST) == 0 and reduced(ddp, 3.0) == 3


def check_ranks_without_inputs():
    """Rank 0 has none, rank 1 has two steps. Before and after, both ranks take one."""
    for static, steps_before in ((True, 0), (False, 1), (True, 1)):
        ddp = wrapped(gradient_as_bucket_view=static)
        for _ in range(steps_before):
            assert reduced(ddp, LEAST) == LEAST
        with Join([ddp], divide_by_initial_world_size=static):
            for _ in range(2 * dist.get_rank()):
                assert reduced(ddp, 4.0) == (2 if static else 4)
        assert reduced(ddp, 4.0) == 4
        with Join([ddp], enable=False):
            assert reduced(ddp, LEAST) == LEAST


def check_several_under_one_join():
    """PyTorch counts the ranks with inputs for the first module only; the others divide by the group's size."""
    for static in (True, False):
        first, second = wrapped(), wrapped()
        with Join([first, second], divide_by_initial_world_size=static):
            for _ in range(2 * dist.get_rank()):
                assert reduced(first, 4.0) == (2 if static else 4) and reduced(second, 4.0) == 2
        with Join([first, second], enable=False):
            assert reduced(first, LEAST) == LEAST and reduced(second, LEAST) == LEAST


def check_nothing_is_kept():
    gc.collect()
    before = set(averages._averages)
    ddp = wrapped()
    assert reduced(ddp, 1.0) == 1 and len(averages._averages) == len(before) + 1
    del ddp
    gc.collect()
    assert set(averages._averages) == before


if __name__ == "__main__":
    dist.init_process_group("rueda")
    check_averages()
    check_programs_hooks()
    check_other_hooks()
    check_ranks_without_inputs()
    check_several_under_one_join()
    check_nothing_is_kept()
    dist.destroy_process_group()
