"""The model of the programs beside this file, how it is wrapped, and what it learns."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))


def wrapped(kind, model):
    if kind == "ddp":
        return DistributedDataParallel(model, bucket_cap_mb=0.001)
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer)
    return fully_shard(model)


def rows(seed):
    """A batch of four rows for each of two ranks, and targets."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(8, 8, generator=generator), torch.randn(8, 2, generator=generator)


def part(tensor):
    return tensor.chunk(2)[dist.get_rank()]


def loss_of(model, inputs, targets):
    return torch.nn.functional.mse_loss(model(inputs), targets)


def close(first, second):
    return all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(first, second, strict=True))
