"""Images per second of ResNet-18 on random 32x32 images, in the usual form.

    hvdrun -np 2 python examples/torch/synthetic_benchmark.py
    hvdrun -np 2 python examples/torch/synthetic_benchmark.py --fp16-allreduce
"""

import argparse
import statistics
import timeit

import torch

import rueda.torch as hvd
from resnet18 import ResNet18


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fp16-allreduce", action="store_true", help="gradients travel in half precision")
    parser.add_argument("--batch-size", type=int, default=32, help="images per rank")
    parser.add_argument("--width", type=int, default=64, help="channels of the first stage")
    parser.add_argument("--num-warmup-batches", type=int, default=10)
    parser.add_argument("--num-batches-per-iter", type=int, default=10)
    parser.add_argument("--num-iters", type=int, default=10)
    return parser.parse_args()


def log(line):
    if hvd.rank() == 0:
        print(line)


def main():
    options = parse()
    hvd.init()
    model = ResNet18(width=options.width)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size()),
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    images = torch.randn(options.batch_size, 3, 32, 32)
    labels = torch.randint(0, 10, (options.batch_size,))

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    log(f"Model: ResNet-18, width {options.width}\nBatch size: {options.batch_size}\nNumber of ranks: {hvd.size()}")
    timeit.timeit(step, number=options.num_warmup_batches)
    rates = []
    for number in range(options.num_iters):
        seconds = timeit.timeit(step, number=options.num_batches_per_iter)
        rates.append(options.batch_size * options.num_batches_per_iter / seconds)
        log(f"Iter #{number}: {rates[-1]:.1f} img/sec per rank")
    mean, spread = statistics.fmean(rates), 1.96 * statistics.pstdev(rates)
    log(f"Img/sec per rank: {mean:.1f} +-{spread:.1f}")
    log(f"Total img/sec on {hvd.size()} rank(s): {hvd.size() * mean:.1f} +-{hvd.size() * spread:.1f}")


if __name__ == "__main__":
    main()
