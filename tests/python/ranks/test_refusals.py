"""Calls that are wrong as they stand: a ValueError says what was given and what may be, and nothing is enqueued."""

import pytest
import torch

import rueda.numpy as hvd_numpy
import rueda.torch as hvd

ROWS = torch.ones(4)
FAULTS = {
    "allreduce op": (lambda: hvd.allreduce(ROWS, op=77), "op=77 is not an operator; use Average, Sum"),
    "allreduce op of another type": (lambda: hvd.allreduce(ROWS, op=1.0), "op=1.0 is not an operator; use Average, Sum"),
    "allreduce op list": (lambda: hvd.allreduce(ROWS, op=[1]), r"op=\[1\] is not an operator; use Average, Sum"),
    "reducescatter op": (lambda: hvd.reducescatter(ROWS, op="sum"), "op='sum' is not an operator; use Average, Sum"),
    "allreduce compression": (lambda: hvd.allreduce(ROWS, compression="fp16"), "compression='fp16': .*Compression.fp16"),
    "grouped_allreduce compression": (lambda: hvd.grouped_allreduce([ROWS], compression=None), "compression=None: "),
    "reducescatter compression": (lambda: hvd.reducescatter(ROWS, compression="bf16"), "compression='bf16': "),
    "grouped_reducescatter compression": (lambda: hvd.grouped_reducescatter([ROWS], compression=16), "compression=16: "),
    "synchronize": (lambda: hvd.synchronize(5), "5 is not a handle"),
    "poll": (lambda: hvd.poll(None), "None is not a handle"),
    "a rank that is not a number": (lambda: hvd.add_process_set([0.5]), "rank of a process set is 0.5; give a whole number"),
    "a bool as rank": (lambda: hvd.add_process_set([True]), "rank of a process set is True"),
    "a rank twice": (lambda: hvd.add_process_set([0, 0]), "twice"),
    "a negative rank": (lambda: hvd.add_process_set([-1]), "rank of a process set is -1"),
    "a rank outside the job": (lambda: hvd.add_process_set([0, 99]), "rank 99 .*0 to"),
    "broadcast root": (lambda: hvd.broadcast(ROWS, 1.0), "root_rank=1.0 is a float; give the number of a rank"),
    "broadcast_ root": (lambda: hvd.broadcast_(ROWS, "0"), "root_rank='0' is a str; give the number of a rank"),
    "broadcast_async root": (lambda: hvd.broadcast_async(ROWS, 1.5), "root_rank=1.5 is a float; "),
    "broadcast_async_ root": (lambda: hvd.broadcast_async_(ROWS, None), "root_rank=None is a NoneType; "),
    "broadcast_object root": (lambda: hvd.broadcast_object(1, None), "root_rank=None is a NoneType; "),
    "broadcast_parameters root": (lambda: hvd.broadcast_parameters([ROWS], "0"), "root_rank='0' is a str; "),
    "broadcast_optimizer_state root": (lambda: hvd.broadcast_optimizer_state(torch.optim.SGD([ROWS], lr=0.1), 0.0), "root_rank=0.0 is a float; "),
    "numpy broadcast root": (lambda: hvd_numpy.broadcast(ROWS.numpy(), 1.0), "root_rank=1.0 is a float; "),
    "numpy broadcast_ root": (lambda: hvd_numpy.broadcast_(ROWS.numpy(), None), "root_rank=None is a NoneType; "),
    "name with half a pair": (lambda: hvd.allreduce(ROWS, name="a\ud800"), r"name='a\\ud800': character 1 is half of a surrogate"),
    "name with a NUL": (lambda: hvd.allreduce_(ROWS.clone(), name="a\0b"), r"name='a\\x00b': character 1 is NUL"),
    "remove_process_set": (lambda: hvd.remove_process_set(None), "give a ProcessSet"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_it_is_told(fault):
    call, says = FAULTS[fault]
    if hvd.rank() == 0:  # the others are not waited for
        with pytest.raises(ValueError, match=says):
            call()


WITHOUT_SET = {
    "allreduce": lambda: hvd.allreduce(ROWS, process_set=None),
    "grouped_allreduce": lambda: hvd.grouped_allreduce([ROWS], process_set=None),
    "allgather": lambda: hvd.allgather(ROWS, process_set=None),
    "grouped_allgather": lambda: hvd.grouped_allgather([ROWS], process_set=None),
    "alltoall": lambda: hvd.alltoall(ROWS, process_set=None),
    "alltoall with splits": lambda: hvd.alltoall(ROWS, splits=[4], process_set=None),
    "broadcast": lambda: hvd.broadcast(ROWS, 0, process_set=None),
    "reducescatter": lambda: hvd.reducescatter(ROWS, process_set=None),
    "reducescatter_": lambda: hvd.reducescatter_(ROWS.clone(), process_set=None),
    "grouped_reducescatter": lambda: hvd.grouped_reducescatter([ROWS], process_set=None),
    "sparse_allreduce_async": lambda: hvd.sparse_allreduce_async(ROWS.to_sparse(), None, process_set=None),
    "send": lambda: hvd.send(ROWS, 0, process_set=None),
    "barrier": lambda: hvd.barrier(process_set=None),
    "join": lambda: hvd.join(process_set=None),
    "broadcast_object": lambda: hvd.broadcast_object(1, process_set=None),
    "allgather_object": lambda: hvd.allgather_object(1, process_set=None),
    "broadcast_parameters": lambda: hvd.broadcast_parameters([ROWS], 0, process_set=None),
    "DistributedOptimizer": lambda: hvd.DistributedOptimizer(torch.optim.SGD([ROWS], lr=0.1), process_set=None),
    "SyncBatchNorm": lambda: hvd.SyncBatchNorm(2, process_set=None),
}


@pytest.mark.parametrize("name", WITHOUT_SET)
def test_no_process_set_is_told(name):
    if hvd.rank() == 0:
        with pytest.raises(ValueError, match="process_set=None: give a ProcessSet"):
            WITHOUT_SET[name]()
