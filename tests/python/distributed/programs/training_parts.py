"""The model of the programs beside this file, and how it is wrapped."""

import torch
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
