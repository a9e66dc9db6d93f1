"""Trains a perceptron with DistributedDataParallel, on all ranks together. Only one word is Rueda's.

    torchrun --nproc-per-node 2 examples/torch/train_ddp.py
    hvdrun -np 2 python examples/torch/train_ddp.py --epochs 10 --checkpoint ddp.pt
    hvdrun -np 2 python examples/torch/train_ddp.py --backend gloo
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from perceptron import make_images, make_model


def parse(description, arguments):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="rueda", help="of torch.distributed")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32, help="images per rank")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--hidden", type=int, default=128, help="units of a hidden layer")
    parser.add_argument("--rate", type=float, default=0.02, help="learning rate")
    parser.add_argument("--checkpoint", help="file to continue from and to save to after each epoch")
    return parser.parse_args(arguments)


def save(path, model, optimizer, epoch):
    """Rank 0 writes a new file and renames it, so that the old one remains if the job is killed meanwhile."""
    if dist.get_rank() == 0:
        state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)
    dist.barrier()


def resume(path, model, optimizer):
    """What rank 0 finds in the file, on all ranks; returns the next epoch."""
    found = [None]
    if dist.get_rank() == 0 and path and os.path.exists(path):
        found = [torch.load(path)]
    dist.broadcast_object_list(found)
    if found[0] is None:
        return 0
    model.module.load_state_dict(found[0]["model"])
    optimizer.load_state_dict(found[0]["optimizer"])
    return found[0]["epoch"] + 1


def train_epoch(model, optimizer, loader):
    for pixels, kinds in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(pixels), kinds)
        loss.backward()
        optimizer.step()
    mean = loss.detach() / dist.get_world_size()
    dist.all_reduce(mean)
    return mean.item()


def main(arguments=None):
    options = parse(__doc__, arguments)
    dist.init_process_group(options.backend)
    images = make_images(options.images)
    sampler = DistributedSampler(images)
    loader = DataLoader(images, batch_size=options.batch, sampler=sampler)
    model = DistributedDataParallel(make_model(options.hidden))
    optimizer = torch.optim.SGD(model.parameters(), lr=options.rate, momentum=0.9)
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
