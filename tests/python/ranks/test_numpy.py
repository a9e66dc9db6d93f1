"""The functions for NumPy arrays give the formula too."""

import numpy as np
import pytest

import rueda.numpy as hvd

DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_allreduce_gives_the_sum(dtype):
    mine = (np.arange(6).reshape(2, 3) + hvd.rank()).astype(dtype)
    total = sum(np.arange(6).reshape(2, 3) + rank for rank in range(hvd.size())).astype(dtype)
    result = hvd.allreduce(mine, op=hvd.Sum)
    assert result.dtype == mine.dtype and np.array_equal(result, total)
    assert np.array_equal(hvd.allreduce(mine.T, op=hvd.Sum), total.T)
    assert hvd.allreduce_(mine, op=hvd.Sum) is mine and np.array_equal(mine, total)


def test_a_broadcast_gives_the_root_s_array():
    mine = np.full((3,), hvd.rank())
    assert np.array_equal(hvd.broadcast(mine, 1), np.ones(3))
    assert hvd.broadcast_(mine, 1) is mine and np.array_equal(mine, np.ones(3))


def test_a_scalar_is_an_array_of_no_dimension():
    assert hvd.allreduce(1.5, op=hvd.Sum) == 1.5 * hvd.size()


def test_what_cannot_be_reduced_is_refused():
    with pytest.raises(ValueError, match="complex"):
        hvd.allreduce(np.ones(2, dtype="complex256"))
    with pytest.raises(ValueError, match="C-contiguous"):
        hvd.allreduce_(np.ones((2, 3)).T)
    hvd.barrier()


def test_ranks_join():
    for _ in range(hvd.rank()):
        hvd.allreduce(np.ones(2), name="uneven")
    assert hvd.join() == hvd.size() - 1
