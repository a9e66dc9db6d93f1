"""A worker of the job that chaos strikes. Usage: worker.py [FOLDER], in which each tenth commit goes to disk

It trains until there is a file `stop` in its working folder, and tells what happens as lines of JSON: with the moment (of
CLOCK_MONOTONIC, which all processes of a machine share) and the number of the worker.

    ready    it is about to call init()
    plan     it has joined a plan, and has the state that all agreed on
    step     it has taken the first step in that plan and committed it
    left     an error or a notice has taken it out of the plan
    done     the training has ended

SIGUSR1 makes it hang before it joins the next plan, SIGUSR2 makes it exit with code 3 in the middle of whatever it does,
and SIGRTMIN with 0.
"""

import os
import signal
import sys

import numpy
import training
from telling import tell

import rueda.numpy as hvd
from rueda import elastic

hanging = []


def seen(state):
    """What a replay needs to compare the state, and the state's own answer."""
    return {"step": state.step, "history": state.history, "digest": training.digest(state.weights, state.momentum)}


def one_step(state):
    """Takes a step and commits it. Returns whether any rank has seen the file `stop`."""
    mine = numpy.append(training.gradient(state.step, hvd.rank()).astype(numpy.float64), float(os.path.exists("stop")))
    total = hvd.allreduce(mine, op=hvd.Sum, name="gradients")
    state.weights, state.momentum = training.updated(state.weights, state.momentum, total[:-1])
    state.step += 1
    state.history = training.lengthened(state.history, hvd.size())
    state.commit()
    return total[-1] > 0


@elastic.run
def train(state):
    """Trains until told to stop."""
    plan = elastic.membership().plan
    tell("plan", plan=plan, rank=hvd.rank(), size=hvd.size(), **seen(state))
    committed, told = state.step, False
    try:
        while not one_step(state):
            committed = state.step
            if not told:
                tell("step", plan=plan)
                told = True
        committed = state.step
    except (elastic.HorovodInternalError, elastic.HostsUpdatedInterrupt) as error:
        # An interrupt comes out of a commit that all ranks have made.
        planned = isinstance(error, elastic.HostsUpdatedInterrupt)
        tell("left", plan=plan, planned=planned, committed=state.step if planned else committed, why=str(error))
        while hanging:
            signal.pause()
        raise


signal.signal(signal.SIGUSR1, lambda *_: hanging.append(True))
signal.signal(signal.SIGUSR2, lambda *_: os._exit(3))
signal.signal(signal.SIGRTMIN, lambda *_: os._exit(0))
tell("ready")
hvd.init()
weights, momentum = training.initial()
state = elastic.ObjectState(hvd.broadcast_object, hvd.rank, weights=weights, momentum=momentum, step=0, history=[],
                            checkpoint=sys.argv[1] if len(sys.argv) > 1 else None, checkpoint_every=10)  # fmt: skip
train(state)
tell("done", rank=hvd.rank(), size=hvd.size(), **seen(state))
