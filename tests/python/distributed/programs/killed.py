"""Rank 1 is killed while all train; the others get an exception that names it. Usage: torchrun ... killed.py ddp|fsdp"""

import os
import signal
import sys

import torch
import torch.distributed as dist
from training_parts import make_model, wrapped

torch.set_num_threads(1)
# torchrun would end the survivors before they have looked at what they got.
signal.signal(signal.SIGTERM, signal.SIG_IGN)

dist.init_process_group("rueda")
rank = dist.get_rank()
model = wrapped(sys.argv[1], make_model())
model(torch.ones(2, 8)).sum().backward()
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    for _ in range(100):
        model(torch.ones(2, 8)).sum().backward()
except RuntimeError as error:
    assert "rank 1" in str(error), error
    print("survivor: rank 1 is named", flush=True)
os._exit(3)
