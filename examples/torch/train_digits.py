"""Trains a perceptron on 8x8 images of digits, on all ranks together.

    hvdrun -np 2 python examples/torch/train_digits.py
    hvdrun -np 4 python examples/torch/train_digits.py --epochs 30 --fp16 --accumulate 2 --checkpoint digits.pt
"""

import argparse
import gzip
import os
import pathlib

import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import rueda.torch as hvd

DATA = pathlib.Path(__file__).parent.parent / "train_digits" / "digits.csv.gz"
TEST_ROWS = 360


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch", type=int, default=32, help="rows per rank and backward pass")
    parser.add_argument("--rate", type=float, default=0.05, help="learning rate of one rank; it grows with the ranks")
    parser.add_argument("--fp16", action="store_true", help="gradients travel in half precision")
    parser.add_argument("--accumulate", type=int, default=1, help="backward passes per step")
    parser.add_argument("--checkpoint", help="file to continue from and to save to after each epoch")
    return parser.parse_args()


def load():
    """Training and test rows: 64 grey values in 0..1 and the digit."""
    with gzip.open(DATA, "rt") as file:
        rows = torch.tensor([[float(cell) for cell in line.split(",")] for line in file])
    pixels, digits = rows[:, :64] / 16.0, rows[:, 64].long()
    return TensorDataset(pixels[:-TEST_ROWS], digits[:-TEST_ROWS]), TensorDataset(pixels[-TEST_ROWS:], digits[-TEST_ROWS:])


def save(path, model, optimizer, epoch):
    """Rank 0 writes a new file and renames it, so that the old one remains if the job is killed meanwhile."""
    if hvd.rank() == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path + ".new")
        os.replace(path + ".new", path)


def resume(path, model, optimizer):
    """Loads the file on rank 0, if there is one, and broadcasts it. Returns the next epoch."""
    epoch = 0
    if hvd.rank() == 0 and path and os.path.exists(path):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        epoch = state["epoch"] + 1
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    return hvd.broadcast_object(epoch, root_rank=0)


def train_epoch(model, optimizer, loader, passes):
    batches = list(loader)
    for first in range(0, len(batches), passes):
        window = batches[first : first + passes]
        optimizer.zero_grad()
        for pixels, digits in window:
            loss = torch.nn.functional.cross_entropy(model(pixels), digits)
            (loss / len(window)).backward()
        optimizer.step()
    return hvd.allreduce(loss.detach(), name="loss").item()


@torch.no_grad()
def accuracy(model, rows):
    """Each rank looks at its part of the test rows."""
    pixels, digits = rows.tensors
    mine = slice(hvd.rank(), None, hvd.size())
    right = (model(pixels[mine]).argmax(1) == digits[mine]).sum()
    return hvd.allreduce(right, op=hvd.Sum, name="right").item() / len(digits)


def main():
    options = parse()
    hvd.init()
    torch.manual_seed(1)
    training, test = load()
    sampler = DistributedSampler(training, num_replicas=hvd.size(), rank=hvd.rank(), shuffle=True)
    loader = DataLoader(training, batch_size=options.batch, sampler=sampler)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=options.rate * hvd.size(), momentum=0.9),
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if options.fp16 else hvd.Compression.none,
        backward_passes_per_step=options.accumulate,
    )
    for epoch in range(resume(options.checkpoint, model, optimizer), options.epochs):
        sampler.set_epoch(epoch)
        loss = train_epoch(model, optimizer, loader, options.accumulate)
        if options.checkpoint:
            save(options.checkpoint, model, optimizer, epoch)
        if hvd.rank() == 0:
            print(f"epoch {epoch}: loss {loss:.4f}")
    reached = accuracy(model, test)
    print(f"rank {hvd.rank()}: accuracy {reached:.3f}, parameters {sum(p.double().sum().item() for p in model.parameters()):.12f}")


if __name__ == "__main__":
    main()
