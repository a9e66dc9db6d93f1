"""Adds up ranks in the hvd dialect. Usage: torchrun ... dialect.py"""

import sys

import torch

import rueda.torch as hvd

hvd.init()
assert hvd.local_rank() == hvd.rank()
total = hvd.allreduce(torch.tensor(float(hvd.rank())), op=hvd.Sum)
sys.stdout.write(f"rank{hvd.rank()}of{hvd.size()}:{total.item():.0f}\n")
