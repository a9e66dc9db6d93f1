"""Rank 1 begins an operation only after it has read a line. Rank 0 gets a SIGINT while it waits for rank 1 in PyTorch's C++.
Usage, for each rank: interrupted.py RANK FILE ddp|hook|wait|then. FILE: of the store. On a stand-in device, if there is one."""

import os
import signal
import sys
import threading

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from rueda.torch.distributed import interrupts

torch.set_num_threads(1)
device = "cpu"
if "STAND_IN_DEVICE" in os.environ:
    import stand_in_device

    device = stand_in_device.NAME
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs have none
rank, file, kind = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("rueda", init_method=f"file://{file}", rank=rank, world_size=2)
if device != "cpu":
    stand_in_device.choose(rank)
model = DistributedDataParallel(torch.nn.Linear(8, 2).to(device))
if kind == "hook":
    model.register_comm_hook(None, fp16_compress_hook)


def step():
    if kind in ("ddp", "hook"):
        model(torch.ones(4, 8, device=device)).sum().backward()
        return
    future = dist.all_reduce(torch.ones(4, device=device), async_op=True).get_future()
    (future if kind == "wait" else future.then(lambda ended: ended.value())).wait()


# The last frame of a thread that is in no function of Python's any more if it has an unfinished future, or all but in PyTorch's.
PLACES = {"_engine_run_backward", "interruptible_wait"}


def interrupt():
    main = threading.main_thread().ident
    while not (interrupts._unfinished and sys._current_frames()[main].f_code.co_name in PLACES):
        threading.Event().wait(0.01)
    os.kill(os.getpid(), signal.SIGINT)


for _ in range(2):  # the second lays out buckets anew, and waits for that
    step()
if rank == 1:
    sys.stdin.readline()
    step()
else:
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        step()
    except KeyboardInterrupt as caught:
        print("interrupted", *(["in C++"] if "Ctrl-C" in str(caught.__context__) else []), flush=True)
dist.barrier()  # ends behind what rank 0 has left
dist.destroy_process_group()
print("ended", flush=True)
