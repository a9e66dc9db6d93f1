"""Functions that test_run_elastic.py has run() call as elastic jobs."""

import fcntl
import os
import signal

import numpy

import rueda.numpy as hvd
from rueda import elastic

STEPS = 12


def train(victim, text):
    """Steps of an elastic training; one worker dies in its middle."""
    hvd.init()
    state = elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0)

    @elastic.run
    def steps(state):
        while state.step < STEPS:
            if elastic.worker_id() == victim and state.step == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            hvd.allreduce(numpy.ones(1), op=hvd.Sum)
            state.step += 1
            state.commit()

    steps(state)
    return elastic.worker_id(), hvd.rank(), hvd.size(), state.step, len(text)


def shrink(die):
    """A training that ends, or whose workers die, once the list of hosts, which rank 0 shortens, has taken a worker away."""
    hvd.init()
    state = elastic.ObjectState(hvd.broadcast_object, hvd.rank)

    @elastic.run
    def steps(state):
        if hvd.rank() == 0:
            with open("next", "w") as file:
                file.write("localhost:2\n")
            os.rename("next", "hosts")
        while hvd.size() == 3:
            state.commit()

    steps(state)
    if die:
        os.kill(os.getpid(), signal.SIGKILL)
    return hvd.rank(), hvd.size()


def refuse(worker):
    """A training in which one worker raises."""
    hvd.init()

    @elastic.run
    def steps(state):
        if elastic.worker_id() == worker:
            raise ValueError(f"worker {worker} refuses")
        hvd.barrier()

    steps(elastic.ObjectState(hvd.broadcast_object, hvd.rank))


def end_early():
    """Worker 0 returns; worker 1 ends with an error once worker 0 is gone."""
    hvd.init()
    with open("alive", "a") as file:
        os.set_inheritable(held := os.dup(file.fileno()), False)
    if hvd.rank() == 0:
        fcntl.flock(held, fcntl.LOCK_EX)
    hvd.barrier()
    if hvd.rank() == 1:
        hvd.shutdown()
        with open("alive") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
        os._exit(3)
    return hvd.rank()


def words_of_hvdrun():
    """The command line of the hvdrun that has started this worker."""
    pid = os.getppid()
    while True:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode().split("\0")
        if "-np" in words:
            return words
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])


def wait():
    """Holds a lock until this process is ended."""
    held = os.open("alive", os.O_CREAT | os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_SH)
    print("here", flush=True)
    signal.pause()
