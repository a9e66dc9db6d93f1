"""What scripts do around the calls: worker processes, threads, signals, Horovod's imports, and the pieces of the guide."""

import os
import pathlib
import re
import signal
import tempfile
import threading

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import rueda.torch as hvd

GUIDE = pathlib.Path(__file__).parents[3] / "docs" / "guide" / "pytorch.md"


def test_workers_of_a_data_loader_are_fine():
    rows = TensorDataset(torch.arange(4.0 * hvd.size()))
    sampler = DistributedSampler(rows, num_replicas=hvd.size(), rank=hvd.rank(), shuffle=False)
    total = torch.zeros(1)
    for (batch,) in DataLoader(rows, batch_size=2, sampler=sampler, num_workers=2):
        total += hvd.allreduce(batch.sum(), op=hvd.Sum)
    assert total.item() == sum(range(4 * hvd.size()))


class RanksOfWorkers(torch.utils.data.Dataset):
    """What each worker of a data loader knows of its rank."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.tensor([hvd.rank(), hvd.size(), hvd.local_rank(), hvd.global_process_set.rank(), torch.initial_seed()])


def test_workers_of_a_data_loader_know_their_rank():
    def seed(worker):
        assert hvd.is_initialized()
        torch.manual_seed(100 * hvd.rank() + worker)

    loader = DataLoader(RanksOfWorkers(), num_workers=2, worker_init_fn=seed, multiprocessing_context="fork")
    for worker, (row,) in enumerate(loader):
        assert row.tolist() == [hvd.rank(), hvd.size(), hvd.local_rank(), hvd.rank(), 100 * hvd.rank() + worker]


def test_threads_may_reduce_while_another_waits():
    sums = [None] * 4

    def work(number):
        for _ in range(20):
            sums[number] = hvd.allreduce(torch.full((10,), float(number)), name=f"thread.{number}", op=hvd.Sum)[0].item()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [float(number * hvd.size()) for number in range(4)]


def test_an_interrupt_ends_a_wait_and_the_operation_goes_on():
    handle = None
    if hvd.rank() == 0:
        handle = hvd.allreduce_async(torch.ones(1), name="waited for", op=hvd.Sum)
        with pytest.raises(KeyboardInterrupt):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            hvd.synchronize(handle)
    hvd.barrier()
    if handle is None:
        handle = hvd.allreduce_async(torch.ones(1), name="waited for", op=hvd.Sum)
    assert hvd.synchronize(handle).item() == hvd.size()


def test_horovods_imports_mean_rueda():
    import horovod.common.elastic
    import horovod.torch as theirs
    import horovod.torch.elastic  # noqa: F401
    from horovod.common.basics import HorovodBasics
    from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: F401
    from horovod.common.process_sets import ProcessSet, global_process_set  # noqa: F401
    from horovod.common.util import check_extension, split_list  # noqa: F401
    from horovod.runner import run
    from horovod.torch.compression import Compression
    from horovod.torch.functions import broadcast_parameters
    from horovod.torch.mpi_ops import allreduce

    theirs.init()
    model = torch.nn.Linear(2, 2)
    optimizer = theirs.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters(),
        compression=Compression.fp16, op=theirs.Average,
    )  # fmt: skip
    broadcast_parameters(model.state_dict(), root_rank=0)
    theirs.broadcast_optimizer_state(optimizer, root_rank=0)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert horovod.run is run and HorovodInternalError is hvd.HorovodInternalError
    assert HorovodBasics("mpi_lib", __file__).size() == hvd.size() and split_list([1, 2, 3], 2) == [[1, 2], [3]]
    assert allreduce(torch.ones(2), op=theirs.Sum).tolist() == [hvd.size()] * 2 and global_process_set.size() == hvd.size()


def test_horovods_helpers_do_what_theirs_do(monkeypatch):
    from horovod.common import elastic, exceptions, util

    monkeypatch.setenv("RUEDA_TEST_SET", "before")
    with util.env(RUEDA_TEST_SET="within", RUEDA_TEST_NEW="new", RUEDA_TEST_NONE=None):
        assert (os.environ["RUEDA_TEST_SET"], os.environ["RUEDA_TEST_NEW"]) == ("within", "new")
        assert "RUEDA_TEST_NONE" not in os.environ
    assert os.environ["RUEDA_TEST_SET"] == "before" and "RUEDA_TEST_NEW" not in os.environ
    assert util.extension_available("torch") and not util.extension_available("mxnet")
    assert util.gpu_available("torch") == torch.cuda.is_available() and not util.gpu_available("tensorflow")
    error = exceptions.HorovodVersionMismatchError("torch", "1", "2")
    assert isinstance(error, ImportError) and (error.name, error.version, error.installed_version) == ("torch", "1", "2")
    assert elastic.ObjectState(bcast_object=None, get_rank=None, epoch=3).epoch == 3


@pytest.mark.skipif(not hasattr(torch.amp, "GradScaler"), reason="the guide speaks of a PyTorch with torch.amp.GradScaler")
def test_every_piece_of_code_in_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # one makes a folder, for its reader to keep
    pieces = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(pieces) >= 9
    for piece in pieces:
        exec(compile(piece, "docs/guide/pytorch.md", "exec"), {"__name__": "__main__"})
