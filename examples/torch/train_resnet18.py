"""Trains ResNet-18 on random 32x32 images, each rank on its own, with the memory layout channels-last.

    hvdrun -np 2 python examples/torch/train_resnet18.py --steps 20 --sync-norm --fp16
"""

import argparse
import os

import torch

import rueda.torch as hvd
from resnet18 import ResNet18


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16, help="images per rank and backward pass")
    parser.add_argument("--width", type=int, default=64, help="channels of the first stage")
    parser.add_argument("--sync-norm", action="store_true", help="normalise over the images of all ranks")
    parser.add_argument("--fp16", action="store_true", help="gradients travel in half precision")
    parser.add_argument("--accumulate", type=int, default=1, help="backward passes per step")
    parser.add_argument("--warm-up", type=int, default=5, help="steps until the learning rate has grown with the ranks")
    parser.add_argument("--checkpoint", help="file that rank 0 saves to at the end")
    return parser.parse_args()


def main():
    options = parse()
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = ResNet18(width=options.width, norm=hvd.SyncBatchNorm if options.sync_norm else torch.nn.BatchNorm2d)
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if options.fp16 else hvd.Compression.none,
        backward_passes_per_step=options.accumulate,
    )
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 + (hvd.size() - 1) * min(1, step / options.warm_up))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    images = torch.randn(options.accumulate, options.batch, 3, 32, 32)
    labels = torch.randint(0, 10, (options.accumulate, options.batch))
    for step in range(options.steps):
        optimizer.zero_grad()
        for batch, wanted in zip(images, labels):
            loss = torch.nn.functional.cross_entropy(model(batch.to(memory_format=torch.channels_last)), wanted)
            (loss / options.accumulate).backward()
        optimizer.step()
        warm_up.step()
        mean = hvd.allreduce(loss.detach(), name="loss").item()
        if hvd.rank() == 0:
            print(f"step {step}: loss {mean:.4f}")
    if options.checkpoint and hvd.rank() == 0:
        torch.save(model.state_dict(), options.checkpoint + ".new")
        os.replace(options.checkpoint + ".new", options.checkpoint)
    print(f"rank {hvd.rank()}: parameters {sum(p.double().sum().item() for p in model.parameters()):.9f}")


if __name__ == "__main__":
    main()
