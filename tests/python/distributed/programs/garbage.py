"""Rank 1 dies between the launch of an operation on its device and the end of its kernel. Rank 0, whose wait has returned,
must not commit what the abort leaves in the tensor. Usage: hvdrun -np 2 garbage.py"""

import os
import signal

import rueda.torch as hvd
import stand_in_device
import torch
from rueda.torch.elastic import TorchState

hvd.init()
stand_in_device.choose(hvd.rank())
count = 10_000_000 if stand_in_device.NAME == "cuda" else 1000  # so many that the kernel outlives the rank
layer = torch.nn.Linear(count, 1, bias=False).to(stand_in_device.NAME)
with torch.no_grad():
    layer.weight.fill_(1.0)
state = TorchState(layer)
hvd.allreduce_(torch.zeros(1, device=stand_in_device.NAME))  # the communicator is there
with torch.no_grad():
    hvd.allreduce_(layer.weight, op=hvd.Sum)
if hvd.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    state.commit()
    how = "committed"
except hvd.HorovodInternalError:
    state.restore()
    how = "restored"
kept = set(layer.weight.detach().cpu().unique().tolist())
assert kept in ({1.0}, {2.0}), kept
print(f"survivor: no garbage, {how}", flush=True)
