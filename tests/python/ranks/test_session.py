"""init() and shutdown()."""

import contextlib
import os

import pytest
import torch

import rueda.torch as hvd


def test_the_numbers_are_those_of_the_launcher():
    assert hvd.is_initialized()
    assert hvd.rank() == int(os.environ["RUEDA_RANK"]) == int(os.environ["HOROVOD_RANK"])
    assert hvd.size() == int(os.environ["RUEDA_SIZE"])
    assert (hvd.local_rank(), hvd.local_size()) == (hvd.rank(), hvd.size())
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)
    assert hvd.is_homogeneous()


def test_the_global_set_has_all_ranks():
    everybody = hvd.global_process_set
    assert everybody.process_set_id == 0 and everybody.ranks == list(range(hvd.size()))
    assert (everybody.rank(), everybody.size(), everybody.included()) == (hvd.rank(), hvd.size(), True)


def test_init_twice_is_one():
    hvd.init()
    hvd.init(list(range(hvd.size())))
    hvd.init([])
    with pytest.raises(ValueError, match="process set"):
        hvd.init([0])
    with pytest.raises(ValueError, match="list of ranks"):
        hvd.init(comm=object())


def test_variables_of_an_mpirun_around_hvdrun_make_no_part(monkeypatch):
    everybody = list(range(hvd.size()))
    hvd.barrier()
    hvd.shutdown()
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "1")
    hvd.init(everybody)
    assert hvd.size() == len(everybody)


def test_without_a_session_queries_are_value_errors_and_operations_internal_ones():
    hvd.barrier()  # no rank is behind when the first one leaves
    hvd.shutdown()
    hvd.shutdown()
    assert not hvd.is_initialized()
    for query in (hvd.rank, hvd.size, hvd.local_rank, hvd.local_size, hvd.cross_rank, hvd.cross_size, hvd.is_homogeneous):
        with pytest.raises(ValueError, match="init"):
            query()
    for call in (lambda: hvd.allreduce(torch.ones(1)), lambda: hvd.broadcast_(torch.ones(1), 0), hvd.barrier):
        with pytest.raises(hvd.HorovodInternalError, match="init"):
            call()
    hvd.init()
    assert float(hvd.allreduce(torch.ones(1), op=hvd.Sum)) == hvd.size()


def test_a_hundred_jobs_one_after_the_other_with_handles_left_behind():
    for cycle in range(100):
        tensor = torch.full((64,), float(hvd.rank()))
        handle = None
        with contextlib.suppress(hvd.ShutDownError):  # a rank that is faster has left already
            handle = hvd.allreduce_async_(tensor, name="left", op=hvd.Sum)
            hvd.allreduce_async(tensor, name="given up")
        if cycle % 2:
            del handle, tensor
        hvd.shutdown()
        hvd.init()
    assert float(hvd.allreduce(torch.ones(1), op=hvd.Sum)) == hvd.size()


def test_what_was_built_is_told():
    assert hvd.gloo_built() and hvd.gloo_enabled()
    for other in (hvd.ddl_built, hvd.ccl_built, hvd.rocm_built, hvd.mpi_threads_supported):
        assert other() is False
    assert isinstance(hvd.nccl_built(), int)
    assert isinstance(hvd.cuda_built(), bool) and isinstance(hvd.mpi_built(), bool) and isinstance(hvd.mpi_enabled(), bool)
