"""Trains a perceptron with its parameters divided over the ranks (fully sharded data parallel). Only one word is Rueda's.

    torchrun --nproc-per-node 2 examples/torch/train_fsdp.py
    hvdrun -np 2 python examples/torch/train_fsdp.py --epochs 10 --checkpoint fsdp.pt
    hvdrun -np 2 python examples/torch/train_fsdp.py --backend gloo
"""

import os

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_model_state_dict, set_optimizer_state_dict
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from perceptron import make_images, make_model
from train_ddp import parse, train_epoch


def shard(model):
    """Each layer is gathered when it is used, and given back after that."""
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer)
    return fully_shard(model)


def save(path, model, optimizer, epoch):
    """Rank 0 writes the whole model beside the old file and renames."""
    whole, state = get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank() == 0:
        torch.save({"model": whole, "optimizer": state, "epoch": epoch}, path + ".new")
        os.replace(path + ".new", path)
    dist.barrier()


def resume(path, model, optimizer):
    """Gives all ranks their parts of what rank 0 finds in the file; returns the next epoch."""
    found, epoch = {"model": {}, "optimizer": {}}, [-1]
    if dist.get_rank() == 0 and path and os.path.exists(path):
        found = torch.load(path)
        epoch = [found["epoch"]]
    dist.broadcast_object_list(epoch)
    if epoch[0] >= 0:
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_model_state_dict(model, found["model"], options=options)
        set_optimizer_state_dict(model, optimizer, found["optimizer"], options=options)
    return epoch[0] + 1


def main(arguments=None):
    options = parse(__doc__, arguments)
    dist.init_process_group(options.backend)
    images = make_images(options.images)
    sampler = DistributedSampler(images)
    loader = DataLoader(images, batch_size=options.batch, sampler=sampler)
    model = shard(make_model(options.hidden))
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate / 10)
    for epoch in range(resume(options.checkpoint, model, optimizer), options.epochs):
        sampler.set_epoch(epoch)
        loss = train_epoch(model, optimizer, loader)
        if options.checkpoint:
            save(options.checkpoint, model, optimizer, epoch)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss:.4f}")
    dist.destroy_process_group()
    return model


if __name__ == "__main__":
    main()
