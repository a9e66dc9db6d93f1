"""Collectives that begin in callbacks of futures, as communication hooks begin them, in an order that differs between ranks.

Usage: torchrun ... hooks.py
"""

import collections
import threading

import torch
import torch.distributed as dist
from callbacks_parts import check_callbacks
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)


def make_model(layers=6):
    """A model in which the gradients of each layer fill one bucket."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(24, 24) for _ in range(layers)])
    return DistributedDataParallel(model, bucket_cap_mb=0.001)


def check_training(state, hook):
    """All ranks have the same bits after some steps, in which each has its own rows."""
    model = make_model()
    if isinstance(hook, dist.BuiltinCommHookType):
        model._register_builtin_comm_hook(hook)
    else:
        model.register_comm_hook(state, hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(dist.get_rank())
    before = torch.nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(4, 24, generator=generator)).square().mean().backward()
        optimizer.step()
    own = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    everyone = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, own)
    assert own.isfinite().all() and not torch.equal(own, before)
    assert all(torch.equal(other, own) for other in everyone), (hook, [(other - own).abs().max() for other in everyone])


def check_wrong_built_in():
    """What is no built-in hook is refused by PyTorch, with the types that it takes."""
    try:
        make_model()._register_builtin_comm_hook("x")
    except TypeError as error:
        assert "BuiltinCommHookType" in str(error), error
    else:
        raise AssertionError("a text was taken for a built-in hook")


def power_state(**how):
    return powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=0.5, **how)


class TwoSums:
    """A hook that sums each bucket, and from a callback the sum again, times the bucket's number. Odd ranks begin the second
    sums in the opposite order: a callback waits for that of the next bucket, unless the main thread runs it."""

    def __init__(self):
        self.factors = {}  # by parameter
        self.begun = collections.defaultdict(threading.Event)  # by bucket

    def __call__(self, _, bucket):
        number, last, size = bucket.index(), bucket.is_last(), dist.get_world_size()
        self.factors.update((id(parameter), size * (number + 1)) for parameter in bucket.parameters())
        result = torch.futures.Future()

        def second(future):
            if dist.get_rank() % 2 == 1 and not last and threading.current_thread() is not threading.main_thread():
                assert self.begun[number + 1].wait(100)
            work = dist.all_reduce((number + 1) * future.value()[0], async_op=True)
            self.begun[number].set()
            work.get_future().add_done_callback(lambda future: result.set_result(future.value()[0]))

        dist.all_reduce(bucket.buffer(), async_op=True).get_future().add_done_callback(second)
        return result


def check_sums(layers):
    model, rank, size = make_model(layers), dist.get_rank(), dist.get_world_size()
    hooks = []
    model.register_comm_hook(None, lambda state, bucket: hooks[-1](state, bucket))
    for _ in range(3):  # buckets are made anew after the first
        hooks.append(TwoSums())
        model.zero_grad()
        # Each parameter's gradient is rank + 1 everywhere.
        total = model(torch.zeros(1, 24)).sum() * 0 + sum(parameter.sum() for parameter in model.module.parameters())
        ((rank + 1) * total).backward()
        for parameter in model.parameters():
            wanted = hooks[-1].factors[id(parameter)] * size * (size + 1) / 2
            assert torch.equal(parameter.grad, torch.full_like(parameter, wanted)), (parameter.grad, wanted)


def main():
    dist.init_process_group("rueda")
    check_callbacks()
    check_sums(layers=8)
    check_wrong_built_in()
    check_training(power_state(), powerSGD_hook.powerSGD_hook)
    check_training(power_state(batch_tensors_with_same_shape=True), powerSGD_hook.powerSGD_hook)
    check_training(power_state(), default_hooks.fp16_compress_wrapper(powerSGD_hook.powerSGD_hook))
    check_training(None, default_hooks.fp16_compress_hook)
    # DistributedDataParallel refuses the hook by its name unless there is NCCL.
    check_training(None, lambda group, bucket: default_hooks.bf16_compress_hook(group, bucket))
    for built_in in dist.BuiltinCommHookType.__members__.values():
        check_training(None, built_in)
    everyone = dist.new_group(list(range(dist.get_world_size())))
    local = post_localSGD_hook.PostLocalSGDState(None, everyone, start_localSGD_iter=2)
    check_training(local, post_localSGD_hook.post_localSGD_hook)
    dist.destroy_process_group()
    print("ok", flush=True)


main()
