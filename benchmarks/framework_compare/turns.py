"""What the peers of every framework share: shapes, free ports, and turns that are timed. The ranks talk by rueda.numpy."""

import contextlib
import json
import os
import socket

import numpy as np

import rueda.numpy as hvd
from jobs import resnet50_shapes, seconds_per_step

WIDTH, LAYERS, ROWS = 1024, 4, 32


def shrunk_shapes(shrink):
    return [(max(1, shape[0] // shrink), *shape[1:]) for shape in resnet50_shapes()]


def own_gradients(shrink):
    """What this rank puts in: other numbers on each rank, and small ones, so that averages are exact."""
    return [np.full(shape, hvd.rank() + index % 8, np.float32) for index, shape in enumerate(shrunk_shapes(shrink))]


def perceptron(shrink):
    """The weights, equal on all ranks, and this rank's rows."""
    width = max(8, WIDTH // shrink)
    numbers = np.random.default_rng(1)
    weights = [numbers.standard_normal((width, width)).astype(np.float32) / np.float32(width) ** 0.5 for _ in range(LAYERS)]
    return weights, np.random.default_rng(hvd.rank()).standard_normal((ROWS, width)).astype(np.float32)


def free_ports():
    """A port of each rank that was free just now."""
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return hvd.allgather_object(taken.getsockname()[1])


def threads_of_rank():
    return max(1, len(os.sched_getaffinity(0)) // hvd.local_size())


def check_equal(peers):
    """Every peer but "alone" gives the same arrays; "alone" gives others, or the comparison would say nothing."""
    results = {name: [np.asarray(array) for array in step()] for name, step in peers.items()}
    wanted = results.pop("alone")
    last = results[list(results)[-1]]
    for name, arrays in results.items():
        for one, other in zip(arrays, last):
            np.testing.assert_allclose(one.reshape(other.shape), other, rtol=1e-4, atol=1e-5, err_msg=name)
    assert hvd.size() == 1 or any(not np.allclose(one, other.reshape(one.shape)) for one, other in zip(wanted, last))


def slowest(seconds):
    return float(hvd.allreduce(np.array(seconds), op=hvd.Max, name="spent"))


def take(contests, options, versions):
    """Checks all peers, lets them take turns, prints a line of JSON on rank 0, and ends the process."""
    for peers in contests.values():
        check_equal(peers)
    times = {kind: {name: [] for name in peers} for kind, peers in contests.items()}
    for _ in range(options.rounds):
        for kind, peers in contests.items():
            for name, step in peers.items():
                times[kind][name].append(1e3 * seconds_per_step(step, options.seconds, hvd.barrier, slowest))
    if hvd.rank() == 0:
        print("framework_compare", json.dumps({"versions": versions, "times": times}), flush=True)
    hvd.barrier()
    hvd.shutdown()
    os._exit(0)  # the frameworks' own services wait for each other at exit
