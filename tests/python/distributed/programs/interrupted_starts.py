"""Ctrl-C after the enqueue of an operation: memory that the library or a device still uses is not given to others.
Usage: torchrun ... interrupted_starts.py [DEVICE]"""

import signal
import sys

import rueda.torch as hvd
import torch
import torch.distributed as dist
from rueda import operations
from rueda._native import lib
from rueda.torch import messages, rows
from rueda.torch.distributed import group_rows, process_group

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
if DEVICE != "cpu":
    import stand_in_device

COUNT = 2000
torch.set_num_threads(1)


class Interrupted:
    """The library. Ctrl-C comes when it has an operation of which Python has no number yet."""

    def __getattr__(self, name):
        function = getattr(lib, name)
        if not name.startswith("rueda_py_start"):
            return function

        def start(*arguments):
            function(*arguments)
            signal.raise_signal(signal.SIGINT)

        return start


def interrupt(call):
    try:
        call()
    except KeyboardInterrupt:
        return
    raise AssertionError("no KeyboardInterrupt")


def require_kept(addresses):
    others = [torch.empty(COUNT, device=DEVICE) for _ in range(300)]
    given_away = set(addresses) & {other.data_ptr() for other in others}
    assert not given_away, "memory that the library has borrowed was given away"


def check_starts(rank, size):
    after = (rank + 1) % size

    def made(parts=1):
        return torch.ones(COUNT // parts, device=DEVICE)

    cases = {
        "reduce": (process_group, lambda one, _: dist.reduce(one, 0)),
        "all_gather": (group_rows, lambda _, other: dist.all_gather_into_tensor(other, made(size))),
        "reduce_scatter": (group_rows, lambda one, _: dist.reduce_scatter_tensor(made(size), one)),
        "all_to_all": (group_rows, lambda one, other: dist.all_to_all_single(other, one)),
        "send": (messages, lambda one, _: dist.isend(one, after)),
        "group": (operations, lambda one, other: hvd.grouped_allreduce_([one, other])),
        "rows": (rows, lambda one, _: hvd.allgather(one)),
    }
    for name, (module, call) in cases.items():
        one, other = made(), made()
        addresses = [one.data_ptr()] * (name != "all_gather") + [other.data_ptr()] * (name in ("all_gather", "all_to_all", "group"))
        module.lib = Interrupted()
        try:
            interrupt(lambda: call(one, other))  # noqa: B023
        finally:
            module.lib = lib
        del one, other
        require_kept(addresses)
        if name == "send":
            dist.recv(made(), (rank - 1) % size)
        dist.barrier()


signal.signal(signal.SIGINT, signal.default_int_handler)
dist.init_process_group("rueda")
hvd.init()
if DEVICE != "cpu":
    stand_in_device.choose(dist.get_rank())
hvd.allreduce_(torch.ones(COUNT, device=DEVICE))
check_starts(dist.get_rank(), dist.get_world_size())
dist.destroy_process_group()
print("ok", flush=True)
