"""Trains a small network on synthetic digits: every rank draws its own part of the data, and all end with the same
parameters.

    hvdrun -np 2 python examples/mxnet/train_digits.py
"""

import argparse
from typing import Tuple

import numpy as np

import rueda.mxnet as hvd  # before mxnet, which it makes importable beside NumPy 1.24 to 1.26

import mxnet as mx  # isort: skip

CLASSES, PIXELS = 10, 64


def batch_of(generator: np.random.RandomState, size: int) -> Tuple[mx.nd.NDArray, mx.nd.NDArray]:
    """Noisy images of ten patterns, the same patterns on all ranks."""
    patterns = np.random.RandomState(0).normal(size=(CLASSES, PIXELS))
    labels = generator.randint(0, CLASSES, size)
    return mx.nd.array(patterns[labels] + generator.normal(scale=0.8, size=(size, PIXELS))), mx.nd.array(labels)


def main() -> None:
    """Trains and prints."""
    parser = argparse.ArgumentParser(description="Trains a small network on synthetic digits with MXNet and Rueda.")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64, help="of each rank")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--fp16", action="store_true", help="send gradients as half precision")
    arguments = parser.parse_args()

    hvd.init()
    generator = np.random.RandomState(1 + hvd.rank())
    net = mx.gluon.nn.Sequential()
    net.add(mx.gluon.nn.Dense(arguments.width, activation="tanh"), mx.gluon.nn.Dense(CLASSES))
    net.initialize(mx.init.Xavier())
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    compression = hvd.Compression.fp16 if arguments.fp16 else hvd.Compression.none
    trainer = hvd.DistributedTrainer(net.collect_params(), "adam", {"learning_rate": 3e-3}, compression=compression)
    cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    for number in range(arguments.steps):
        images, labels = batch_of(generator, arguments.batch)
        with mx.autograd.record():
            loss = cross_entropy(net(images), labels)
        loss.backward()
        trainer.step(arguments.batch)
        mean = hvd.allreduce(loss.mean(), name="loss")
        if hvd.rank() == 0 and (number + 1) % 20 == 0:
            print(f"step {number + 1}: loss {mean.asscalar():.4f}", flush=True)
    images, labels = batch_of(generator, 500)
    accuracy = hvd.allreduce((net(images).argmax(axis=1) == labels).mean(), name="accuracy").asscalar()
    total = sum(float(parameter.data().sum().asscalar()) for parameter in net.collect_params().values())
    print(f"rank {hvd.rank()}: accuracy {accuracy:.3f}, parameters {total:.6f}")


if __name__ == "__main__":
    main()
