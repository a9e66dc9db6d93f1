"""A rank of Gloo in PyTorch: the same works as the programs of ranks/, from the same plan, with the same lines of JSON.

Several tensors are asynchronous all-reduces that are waited for; a codec is a cast before and after, as DDP's hook has it.
"""

import argparse
import json
import os
import pathlib
import resource
import sys
import time

import torch
import torch.distributed as dist

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from gloo_sweep import quantile
from machine import let_pass

# As rueda-perf has it: the largest cache of the first core, and at least 32 MiB.
CPUS = pathlib.Path("/sys/devices/system/cpu")
CACHES = CPUS.glob("cpu0/cache/index*/size")
CACHE_BYTES = max([32 << 10, *(int(each.read_text().rstrip("K\n")) for each in CACHES)]) << 10
SHARERS = sorted(CPUS.glob("cpu0/cache/index*/shared_cpu_list"))
HAS_ONE_CACHE = bool(SHARERS) and SHARERS[-1].read_text() == (CPUS / "online").read_text()  # so that all ranks share it
SETTLING_SECONDS = 0.3  # as ranks/main.cc has it
TYPES = {"none": None, "fp16": torch.float16, "bf16": torch.bfloat16}


def reduced(value, op):
    found = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(found, op=op)
    return found.item()


def largest(value):
    return reduced(value, dist.ReduceOp.MAX)


def usage():
    """Microseconds of the processor, and wake-ups."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return 1e6 * (spent.ru_utime + spent.ru_stime), spent.ru_nvcsw


def pss_mib():
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("Pss:"))


class Step:
    def __init__(self, line):
        self.name, mode, buffers, memory, codec, seconds, counts = line.split()
        if memory != "private":
            raise SystemExit("gloo_ranks: Gloo has no memory that ranks share")
        self.seconds, self.packed, self.type = float(seconds), mode == "packed", TYPES[codec]
        self.counts = []
        for part in counts.split(","):
            count, _, times = part.partition("*")
            self.counts += [int(count)] * int(times or 1)
        self.bytes = 4 * sum(self.counts)
        sharers = dist.get_world_size() if HAS_ONE_CACHE else 1
        turns = max(2, 4 * CACHE_BYTES // sharers // self.bytes + 1) if buffers == "cold" else 1
        self.turns = [[torch.zeros(count) for count in self.counts] for _ in range(min(turns, 20000))]

    def run(self, turn=0):
        tensors = self.turns[turn % len(self.turns)]
        if self.packed:
            packed = torch.cat(tensors)
            dist.all_reduce(packed)
            for tensor, part in zip(tensors, packed.split(self.counts)):
                tensor.copy_(part)
            return
        cast = [tensor.to(self.type) for tensor in reversed(tensors)] if self.type else tensors[::-1]
        for request in [dist.all_reduce(each, async_op=True) for each in cast]:
            request.wait()
        if self.type:
            for tensor, each in zip(reversed(tensors), cast):
                tensor.copy_(each)

    def is_correct(self):
        """Small whole numbers, as ranks/step.cc has them."""
        ranks, rank = dist.get_world_size(), dist.get_rank()
        patterns = [torch.arange(count) % 7 + index % 5 for index, count in enumerate(self.counts)]
        for tensor, pattern in zip(self.turns[0], patterns):
            tensor.copy_(pattern + rank)
        self.run()
        right = all(torch.equal(tensor, (pattern * ranks + ranks * (ranks - 1) // 2).float())
                    for tensor, pattern in zip(self.turns[0], patterns))  # fmt: skip
        for tensor in self.turns[0]:
            tensor.zero_()
        return right

    def times(self, steps):
        found, begin = [], time.perf_counter()
        for turn in range(steps):
            self.run(turn)
            end = time.perf_counter()
            found.append(1e6 * (end - begin))
            begin = end
        return sorted(found)

    def row(self):
        right = self.is_correct()
        usual = 50 if len(self.counts) == 1 and self.bytes <= 1 << 20 else 4
        step_us = largest(quantile(self.times(2 if self.bytes > 16 << 20 else usual), 0.5))
        step_us = largest(quantile(self.times(int(min(max(SETTLING_SECONDS * 1e6 / step_us, 5), 10000))), 0.5))
        steps = 3 if step_us > self.seconds * 0.25e6 else int(min(max(self.seconds * 1e6 / step_us, 5), 10000))
        largest(0)
        before = usage()
        own = self.times(steps)
        cpu = (usage()[0] - before[0]) / steps
        right = self.is_correct() and right
        p50, p99, most = largest(quantile(own, 0.5)), largest(quantile(own, 0.99)), largest(own[-1])
        return {"name": self.name, "bytes": self.bytes, "count": len(self.counts), "ranks": dist.get_world_size(), "p50_us": p50,
                "p99_us": p99, "max_us": most, "cpu_us": reduced(cpu, dist.ReduceOp.SUM), "iterations": steps,
                "correct": largest(0 if right else 1) == 0}  # fmt: skip


def rate_of(act):
    """Percent of a core, and wake-ups a second, while `act` runs."""
    before, begin = usage(), time.perf_counter()
    act()
    passed, after = time.perf_counter() - begin, usage()
    return 1e-4 * (after[0] - before[0]) / passed, (after[1] - before[1]) / passed


def idle(seconds, join):
    buffer = torch.zeros(16 << 20)
    at_start = pss_mib()
    join()
    largest(0)
    after_init = pss_mib()
    dist.all_reduce(buffer)
    after_batch = pss_mib()
    largest(0)
    percent, wakes = rate_of(lambda: let_pass(seconds))
    largest(0)
    late = dist.get_rank() == 0
    waiting, _ = rate_of(lambda: (late and let_pass(seconds), largest(0)))
    return {"idle_core_percent": largest(percent), "wakeups_per_second": largest(wakes),
            "waiting_core_percent": largest(0 if late else waiting), "pss_growth_by_init_MiB": largest(after_init - at_start), "pss_growth_by_batch_MiB": largest(after_batch - after_init),
            "ranks": dist.get_world_size()}  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plan", nargs="?")
    parser.add_argument("--idle", type=float)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--meeting", required=True)
    options = parser.parse_args()
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // options.ranks))

    def join():
        dist.init_process_group("gloo", init_method=f"file://{options.meeting}", rank=options.rank, world_size=options.ranks)

    def tell(row):
        if options.rank == 0:
            print("compare", json.dumps(row), flush=True)

    if options.idle:
        tell(idle(options.idle, join))
    else:
        join()
        tell({"library": f"Gloo in PyTorch {torch.__version__}"})
        with open(options.plan, encoding="ascii") as file:
            for line in file:
                tell(Step(line).row())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
