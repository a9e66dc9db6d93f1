"""What DistributedDataParallel and FullyShardedDataParallel can be told, over Rueda: parameters are those of one process that
takes the steps of all ranks. Usage: torchrun --nproc-per-node 2 ... data_parallel.py
"""

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, StateDictType
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel
from training_parts import close, loss_of, make_model, part, rows

torch.set_num_threads(1)
BUCKETS = {"bucket_cap_mb": 0.001}


class Branches(torch.nn.Module):
    """Uses one of two layers."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.first, self.second, self.last = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)

    def forward(self, inputs, branch=0):
        return self.last(torch.relu((self.first, self.second)[branch](inputs)))


def train(model, gradients_of, steps=4):
    """The model after steps that each begin with gradients_of(model, step)."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        gradients_of(model, step)
        optimizer.step()
    return model


def parts_of(step):
    """What rank 0 and rank 1 take in a step."""
    return zip(*(tensor.chunk(2) for tensor in rows(step)))


def whole(model, step):
    loss_of(model, *rows(step)).backward()


def own(model, step):
    loss_of(model, *map(part, rows(step))).backward()


def check_unused_parameters():
    """Ranks use different layers, and in some steps none of them uses one, which then has a gradient on no rank."""
    rank = dist.get_rank()

    def branch_of(rank, step):
        return (step // 2 + rank * (step % 2)) % 2

    def theirs(model, step):
        for rank, (inputs, targets) in enumerate(parts_of(step)):
            (torch.nn.functional.mse_loss(model(inputs, branch_of(rank, step)), targets) / 2).backward()

    def ours(model, step):
        inputs, targets = map(part, rows(step))
        torch.nn.functional.mse_loss(model(inputs, branch_of(rank, step)), targets).backward()

    ddp = DistributedDataParallel(Branches(), find_unused_parameters=True, **BUCKETS)
    assert close(train(ddp, ours).parameters(), train(Branches(), theirs).parameters())


def check_static_graph():
    """One layer is never used, another one twice, one of these times with recomputation."""

    def twice(model, inputs):
        first = model.first(inputs)
        return model.last(torch.utils.checkpoint.checkpoint(model.first, first, use_reentrant=True))

    class Twice(Branches):
        def forward(self, inputs):
            return twice(self, inputs)

    ddp = DistributedDataParallel(Twice(), static_graph=True, **BUCKETS)
    assert close(train(ddp, own).parameters(), train(Twice(), whole).parameters())


def check_no_sync(model):
    """Gradients of two batches are added up before they are reduced."""

    def both(model, step):
        whole(model, step)
        whole(model, step + 100)

    def ours(model, step):
        with model.no_sync():
            own(model, step)
        own(model, step + 100)

    assert close(full(train(model, ours)), train(make_model(), both).parameters())


def check_gradients_as_views():
    ddp = DistributedDataParallel(make_model(), gradient_as_bucket_view=True, **BUCKETS)
    assert close(train(ddp, own).parameters(), train(make_model(), whole).parameters())
    assert all(parameter.grad._is_view() for parameter in ddp.parameters())


def check_compressed():
    ddp = DistributedDataParallel(make_model(), **BUCKETS)
    ddp.register_comm_hook(None, fp16_compress_hook)
    for one, other in zip(train(ddp, own).parameters(), train(make_model(), whole).parameters()):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-3)


def check_built_in_hooks():
    """They give the bits that they give over Gloo, and a group of the two ranks may have them, too."""
    gloo, pair = dist.new_group(backend="gloo"), dist.new_group([0, 1])
    for built_in in (dist.BuiltinCommHookType.ALLREDUCE, dist.BuiltinCommHookType.FP16_COMPRESS):
        wanted, found, of_pair = (
            list(trained.parameters()) for trained in (train_with_built_in(built_in, group) for group in (gloo, None, pair)))  # fmt: skip
        for one, other, third in zip(found, wanted, of_pair):
            assert torch.equal(one, other) and torch.equal(third, other), (built_in, (one - other).abs().max())
    dist.destroy_process_group(gloo)


def train_with_built_in(hook, group):
    ddp = DistributedDataParallel(make_model(), process_group=group, **BUCKETS)
    ddp._register_builtin_comm_hook(hook)
    return train(ddp, own)


def check_uneven_inputs():
    """Rank 0 has three batches, rank 1 five: the last two count as half, or whole."""
    for divisor in (2, 1):

        def theirs(model, step):
            for rank, (inputs, targets) in enumerate(parts_of(step)):
                if step < 3 or rank == 1:
                    (loss_of(model, inputs, targets) / (2 if step < 3 else divisor)).backward()

        ddp = DistributedDataParallel(make_model(), **BUCKETS)
        with ddp.join(divide_by_initial_world_size=divisor == 2):
            train(ddp, own, steps=3 + 2 * dist.get_rank())
        assert close(ddp.parameters(), train(make_model(), theirs, steps=5).parameters())
    told = ""
    try:
        with Join([ddp], throw_on_early_termination=True):
            train(ddp, own, steps=1 + dist.get_rank())
    except RuntimeError as error:
        told = str(error)
    assert "exhausted" in told, told
    own(ddp, 0)  # the model is still of use


def full(model):
    """The parameters of a wrapped model, whole on every rank."""
    if not isinstance(model, FullyShardedDataParallel):
        return model.parameters()
    with FullyShardedDataParallel.summon_full_params(model):
        return [parameter.detach().clone() for parameter in model.parameters()]


class Lookup(torch.nn.Module):
    """Its embedding has sparse gradients, and the layer behind it dense ones."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.table, self.last = torch.nn.Embedding(10, 4, sparse=True), torch.nn.Linear(4, 2)

    def forward(self, words):
        return self.last(self.table(words)).square().mean()


def check_sparse_gradients():
    words = [torch.tensor([[1, 2, 2], [3, 4, 5]]), torch.tensor([[2, 7, 7], [0, 1, 9]])]
    rank, plain, ours = dist.get_rank(), Lookup(), DistributedDataParallel(Lookup(), **BUCKETS)
    for model, parts in ((plain, words), (ours, words[rank : rank + 1])):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            for part in parts:
                (model(part) / len(parts)).backward()
            optimizer.step()
    assert close(ours.parameters(), plain.parameters())


def sharded(**how):
    return FullyShardedDataParallel(make_model(), auto_wrap_policy=ModuleWrapPolicy({torch.nn.Linear}), use_orig_params=True,
                                    device_id=torch.device("cpu"), **how)  # fmt: skip


def check_sharded():
    wanted = list(train(make_model(), whole).parameters())
    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD):
        assert close(full(train(sharded(sharding_strategy=strategy), own)), wanted), strategy


def check_sharded_norm_and_state():
    model, plain = sharded(), make_model()
    own(model, 0)
    whole(plain, 0)
    assert torch.allclose(model.clip_grad_norm_(0.1), torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.1))
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT):
        state = model.state_dict()
    assert list(state) == list(plain.state_dict()) and close(state.values(), plain.state_dict().values())


def main():
    dist.init_process_group("rueda")
    check_unused_parameters()
    check_static_graph()
    check_no_sync(DistributedDataParallel(make_model(), **BUCKETS))
    check_gradients_as_views()
    check_compressed()
    check_built_in_hooks()
    check_uneven_inputs()
    check_sparse_gradients()
    check_sharded()
    check_sharded_norm_and_state()
    check_no_sync(sharded())
    dist.destroy_process_group()
    print("ok", flush=True)


main()
