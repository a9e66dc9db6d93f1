"""All-reduces of PyTorch's Gloo beside Rueda's and MPI's, in turns, as one JSON in the shape that rueda-perf writes.

    .venv/bin/python benchmarks/gloo_sweep.py --json build/sweep-np2.json                # needs PyTorch and a release build
    ... gloo_sweep.py --ranks 4 --min 1K --max 64M --step-factor 4 --seconds 0.4 --peer mpi --json build/sweep-np4.json
    ... gloo_sweep.py --alone --json build/gloo-np2.json                                 # Gloo without Rueda and MPI

For each size of the sweep first rueda-perf runs (with --peer mpi if it is given, and with --limit at the largest size; with
--shared once more for tensors in shared memory), then Gloo, so that all of them see the same machine in the same minute. The ranks of Gloo are one job for the whole sweep; between
their turns they sleep. A step is an all-reduce (sum, f32, in place) of one tensor on all ranks, timed as rueda-perf times it:
warm steps first, then as many steps as --seconds has room for; each quantile is the maximum over the ranks' own. Before that
one result is compared with a formula, element by element. line_ns is 0: Gloo's ranks do not measure how far their cores are
apart.

scripts/plot-results draws the file.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parent.parent
SUFFIXES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text):
    """4, 64K, 1M: bytes."""
    return int(text[:-1]) * SUFFIXES[text[-1]] if text[-1] in SUFFIXES else int(text)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--min", type=size, default=size("1K"), help="the smallest tensor (1K)")
    parser.add_argument("--max", type=size, default=size("64M"), help="the largest tensor (64M)")
    parser.add_argument("--step-factor", type=int, default=4, help="how many times as large the next tensor is")
    parser.add_argument("--seconds", type=float, default=0.4, help="time of the timed steps of one size")
    parser.add_argument("--bin", default=str(ROOT / "build" / "release" / "bin"), help="the folder of hvdrun and rueda-perf")
    parser.add_argument("--peer", choices=["mpi"], help="what rueda-perf measures beside itself")
    parser.add_argument("--shared", action="store_true", help="measure Rueda with tensors in shared memory, too")
    parser.add_argument("--alone", action="store_true", help="measure Gloo only")
    parser.add_argument("--json", required=True, metavar="FILE")
    parser.add_argument("--rank-of", metavar="FILE", help=argparse.SUPPRESS)  # this process is a rank; the ranks meet in FILE
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def sizes(options):
    size = options.min
    while size <= options.max:
        yield size
        size *= options.step_factor


def quantile(times, share):
    """The nearest rank, as rueda-perf has it; `times` is sorted."""
    return times[max(1, math.ceil(share * len(times))) - 1]


class Rank:
    """One rank of the job. PyTorch is imported here: the process that starts the ranks needs none of it."""

    def __init__(self, options):
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.options = torch, dist, options
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // options.ranks))
        meeting = f"file://{options.rank_of}"
        dist.init_process_group("gloo", init_method=meeting, rank=options.rank, world_size=options.ranks)

    def maximum(self, *values):
        found = self.torch.tensor(values, dtype=self.torch.float64)
        self.dist.all_reduce(found, op=self.dist.ReduceOp.MAX)
        return found.tolist()

    def times(self, tensor, steps):
        """Microseconds of each step, from its call to its return."""
        found = []
        begin = time.perf_counter()
        for _ in range(steps):
            self.dist.all_reduce(tensor)
            end = time.perf_counter()
            found.append((end - begin) * 1e6)
            begin = end
        return sorted(found)

    def is_correct(self, tensor):
        """Small whole numbers whose sum over the ranks is exact in f32: element i of rank r is (i mod 7) + r."""
        ranks = self.options.ranks
        pattern = (self.torch.arange(len(tensor)) % 7).to(tensor.dtype)
        tensor.copy_(pattern + self.options.rank)
        self.dist.all_reduce(tensor)
        return bool(self.torch.equal(tensor, pattern * ranks + ranks * (ranks - 1) // 2))

    def row(self, size):
        tensor = self.torch.zeros(max(1, size // 4), dtype=self.torch.float32)
        correct = self.is_correct(tensor)
        tensor.zero_()  # sums of sums would end in infinities
        warm = self.times(tensor, 50 if size <= 1 << 20 else 4)
        (step,) = self.maximum(quantile(warm, 0.5))
        steps = int(min(max(self.options.seconds * 1e6 / max(step, 0.01), 5), 10000))
        own = self.times(tensor, steps)
        p50, p99, most, wrong = self.maximum(quantile(own, 0.5), quantile(own, 0.99), own[-1], 0.0 if correct else 1.0)
        size, ranks = 4 * len(tensor), self.options.ranks
        algorithm_bandwidth = size / (p50 * 1e3)
        return {
            "collective": "allreduce", "bytes": size, "dtype": "f32", "codec": "none", "algorithm": "gloo", "ranks": ranks,
            "p50_us": p50, "p99_us": p99, "max_us": most, "algbw_GBps": algorithm_bandwidth,
            "busbw_GBps": algorithm_bandwidth * 2 * (ranks - 1) / ranks, "line_ns": [0.0, 0.0], "correct": wrong == 0.0,
            "in_place": True, "cold": False, "memory": "private", "count": 1, "iterations": steps, "futex_us": 0.0,
            "p50_per_futex": 0.0,
        }

    def serve(self):
        """A line on standard input is a size in bytes to measure; rank 0 answers with a line of JSON. Ends with the input."""
        if self.options.rank == 0:
            print(json.dumps(self.torch.__version__), flush=True)
        for request in sys.stdin:
            row = self.row(int(request))
            if self.options.rank == 0:
                print(json.dumps(row), flush=True)
        self.dist.destroy_process_group()


class Job:
    """The ranks of Gloo as processes of this host. Each sleeps in a read of its standard input until a size comes."""

    def __init__(self, options, folder):
        surroundings = dict(os.environ)
        surroundings.setdefault("GLOO_SOCKET_IFNAME", "lo")
        command = [sys.executable, __file__, "--json", "-", "--ranks", str(options.ranks), "--seconds", str(options.seconds)]
        command += ["--rank-of", os.path.join(folder, "meeting")]
        self.ranks = [
            subprocess.Popen([*command, "--rank", str(rank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE if rank == 0 else None,
                             text=True, env=surroundings)
            for rank in range(options.ranks)
        ]
        self.version = self.answer()

    def answer(self):
        line = self.ranks[0].stdout.readline()
        if not line:
            self.end()
            raise SystemExit("gloo_sweep: a rank of Gloo ended early; its error is above")
        return json.loads(line)

    def row(self, size):
        for rank in self.ranks:
            rank.stdin.write(f"{size}\n")
            rank.stdin.flush()
        return self.answer()

    def end(self):
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait()


def rueda(options, size, folder, *flags):
    """What rueda-perf writes for this size."""
    path = os.path.join(folder, "rueda.json")
    command = [os.path.join(options.bin, "hvdrun"), "-np", str(options.ranks), "-H", f"localhost:{options.ranks}"]
    command += [os.path.join(options.bin, "rueda-perf"), "allreduce", "--in-place", "--bytes", str(size)]
    command += ["--seconds", str(options.seconds), "--json", path]
    command += flags
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    options = parse()
    if options.rank_of:
        return Rank(options).serve()
    merged, results = {}, []
    with tempfile.TemporaryDirectory() as folder:
        job = Job(options, folder)
        for size in sizes(options):
            if not options.alone:
                limit = ["--limit"] if size * options.step_factor > options.max else []
                peer = ["--peer", options.peer] if options.peer else []
                found = rueda(options, size, folder, *limit, *peer)
                results += found.pop("results")
                merged.update(found)
                if options.shared:
                    results += rueda(options, size, folder, "--memory", "shared")["results"]
            results.append(job.row(size))
            print(" ".join(f"{row['algorithm']} {row['p50_us']:.1f} us" for row in results if row["bytes"] == results[-1]["bytes"]),
                  f"at {size} bytes", flush=True)
        merged["gloo"] = {"library": f"PyTorch {job.version}"}
        job.end()
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump({**merged, "results": results}, file, indent=1)
        file.write("\n")
    return None


if __name__ == "__main__":
    main()
