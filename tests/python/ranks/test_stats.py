"""What a rank says of itself when it is asked."""

import json

import pytest
import torch

import rueda
import rueda.torch as hvd


def test_stats_count_what_has_been_done():
    before = hvd.stats()
    for step in range(10):
        hvd.allreduce(torch.ones(100), name=f"counted.{step}")
    now = rueda.stats()
    assert (now["rank"], now["size"]) == (hvd.rank(), hvd.size())
    assert now["tensors"]["finished"] - before["tensors"]["finished"] == 10
    assert now["bytes"] - before["bytes"] == 10 * 100 * 4
    assert now["tensors"]["failed"] == before["tensors"]["failed"]


def test_a_dump_holds_the_last_operations_of_its_rank(tmp_path):
    hvd.allreduce(torch.ones(7), name="remembered")
    hvd.dump(str(tmp_path / "of.{rank}.json"))
    record = json.loads((tmp_path / f"of.{hvd.rank()}.json").read_text())
    assert "remembered" in json.dumps(record)
    hvd.dump(str(tmp_path / "plain.json"))
    assert (tmp_path / f"plain.json.{hvd.rank()}").exists()


def test_a_dump_that_cannot_be_written_says_where():
    with pytest.raises(hvd.HorovodInternalError, match="no/such/folder"):
        hvd.dump("/no/such/folder/dump")
