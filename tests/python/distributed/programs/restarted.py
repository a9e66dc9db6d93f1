"""Trains nothing, but is started again by torchrun after a rank died before it came to the group. Usage: torchrun
--max-restarts 1 ... restarted.py"""

import os
import sys

import torch
import torch.distributed as dist

attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
if attempt == 0 and rank == 1:
    sys.exit(3)
dist.init_process_group("rueda")
total = torch.ones(1)
dist.all_reduce(total)
dist.destroy_process_group()
print(f"attempt {attempt}: {int(total)} ranks\n", end="")
