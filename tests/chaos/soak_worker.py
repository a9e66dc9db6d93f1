"""A worker of the job that scripts/soak --elastic resets again and again. Usage: soak_worker.py RESETS

In each plan it takes a few steps, then one rank starts an operation that no other rank joins, and raises. So all leave the
plan with an operation of it in flight on one rank. Its handle must end with an error in the next plan.
"""

import os
import pathlib
import sys

import numpy
from telling import tell

import rueda.numpy as hvd
from rueda import elastic

STEPS = 3

open_handles = []


def own_pss():
    """In KiB."""
    rows = pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("Pss:"))


def settle_old_handles():
    """Raises RuntimeError if an operation of an earlier plan has ended well."""
    while open_handles:
        try:
            hvd.synchronize(open_handles.pop())
        except hvd.HorovodInternalError:
            continue
        raise RuntimeError("an operation that only this rank had started has ended well")


@elastic.run
def train(state):
    """Goes through plans until there were enough."""
    settle_old_handles()
    plan = elastic.membership().plan
    for _ in range(STEPS):
        state.total += float(hvd.allreduce(numpy.ones(4096), op=hvd.Sum, name="gradients")[0])
        state.commit()
    state.resets += 1
    state.commit()
    tell("plan", plan=plan, size=hvd.size(), rank=hvd.rank(), resets=state.resets, descriptors=len(os.listdir("/proc/self/fd")),
         threads=len(os.listdir("/proc/self/task")), pss=own_pss())  # fmt: skip
    hvd.barrier()  # all have measured
    if state.resets > int(sys.argv[1]):
        return
    if hvd.rank() == plan % hvd.size():
        open_handles.append(hvd.allreduce_async(numpy.ones(4096), name="alone"))
        raise hvd.HorovodInternalError("this plan is over")
    hvd.barrier()


hvd.init()
train(elastic.ObjectState(hvd.broadcast_object, hvd.rank, total=0.0, resets=0))
