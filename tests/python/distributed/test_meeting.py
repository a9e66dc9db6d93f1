"""How ranks of torch.distributed's default group agree on a generation of keys, whatever the store holds of earlier ones."""

import os
import re
import subprocess
import sys
import threading

import pytest
import torch
import torch.distributed as dist

from rueda.torch.distributed.meeting import _Generations

pytestmark = pytest.mark.skipif(not hasattr(torch, "_is_device_backend_autoload_enabled"),
                                reason=f"PyTorch {torch.__version__} does not find backends of packages by itself")  # fmt: skip


def meet(store, size):
    """What ranks that come at the same time agree on."""
    found = [None] * size

    def come(rank):
        generations = _Generations(store, rank, size, 60.0)
        found[rank] = generations.open() if rank == 0 else generations.sign()

    threads = [threading.Thread(target=come, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1, found
    return found[0]


def leave_behind(store, size, rank, timeout=0.0):
    """What a rank does that dies, or gives up, before the others came."""
    generations = _Generations(store, rank, size, timeout)
    with pytest.raises(TimeoutError) as caught:
        generations.open() if rank == 0 else generations.sign()
    return str(caught.value)


def test_ranks_meet_again_and_again_in_a_generation_of_their_own():
    store = dist.HashStore()
    assert [meet(store, 3) for _ in range(4)] == [f"rueda/{number}/" for number in (1, 2, 3, 4)]


@pytest.mark.parametrize("gone", [[0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 0, 1]], ids=str)
def test_ranks_that_were_started_more_often_than_others_meet_them(gone):
    store = dist.HashStore()
    for rank in gone:
        leave_behind(store, 3, rank)
    meet(store, 3)
    meet(store, 3)


@pytest.mark.parametrize("before, after", [(2, 4), (4, 2), (1, 3), (3, 1)])
def test_jobs_of_more_and_of_fewer_ranks_follow_one_another(before, after):
    store = dist.HashStore()
    meet(store, before)
    leave_behind(store, before + 1, 0)
    meet(store, after)
    meet(store, before)


def test_who_is_missing_is_told_by_those_who_waited():
    store = dist.HashStore()
    nobody = leave_behind(store, 3, 2)
    assert nobody == "init_process_group('rueda'): rank 2 of 3 waited for 0.0 s; rank 0 did not come"
    assert leave_behind(store, 3, 0).endswith("rank 0 of 3 waited for 0.0 s; ranks 1, 2 did not come")
    assert leave_behind(store, 3, 2).endswith("rank 1 did not come")
    many = leave_behind(dist.HashStore(), 100, 0)
    assert re.search(r"ranks 1, 2, .*, 16 and 83 more did not come$", many)


def test_a_key_file_is_the_jobs_key_also_where_torch_has_the_store(tmp_path):
    script = """
import torch.distributed as dist
dist.init_process_group("rueda", store=dist.HashStore(), rank=0, world_size=1)
print("joined")
"""

    def run(path):
        surroundings = {name: text for name, text in os.environ.items() if not name.startswith("RUEDA_")}
        surroundings["RUEDA_JOB_KEY_FILE"] = str(path)
        return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=surroundings)

    key = tmp_path / "key"
    assert f"RUEDA_JOB_KEY_FILE: {key}" in run(key).stderr
    key.write_bytes(bytes(32))
    key.chmod(0o600)
    assert run(key).stdout == "joined\n"


def test_under_torchrun_on_one_host_the_key_is_the_users_and_not_in_torchs_store(tmp_path):
    script = """
import os, shutil, sys
import torch.distributed as dist
path, rank = sys.argv[1], int(os.environ["RANK"])
dist.init_process_group("rueda", init_method="file://" + path, rank=rank, world_size=2)
if rank == 0:
    shutil.copy(path, path + ".copy")
dist.barrier()
print("joined")
dist.destroy_process_group()
"""
    store = tmp_path / "store"

    def start(rank):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2",
                           MASTER_ADDR="127.0.0.1", MASTER_PORT="1", XDG_RUNTIME_DIR=str(tmp_path))
        return subprocess.Popen([sys.executable, "-c", script, str(store)], env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)  # fmt: skip

    ranks = [start(rank) for rank in range(2)]
    said = [rank.communicate() for rank in ranks]
    assert [out for out, _ in said] == ["joined\n"] * 2, said
    key = (tmp_path / "rueda" / "key").read_bytes()
    assert len(key) == 32 and (tmp_path / "rueda").stat().st_mode & 0o077 == 0
    held = (tmp_path / "store.copy").read_bytes()
    assert b"rueda/1/" in held  # so the ranks have met there
    assert b"rueda/1/key" not in held
    assert key not in held and key.hex().encode() not in held
