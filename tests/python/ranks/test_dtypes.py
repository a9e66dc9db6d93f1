"""Dtypes that the library does not know are moved by the size of an element, and not reduced."""

import warnings

import numpy as np
import pytest
import torch

import rueda.numpy
import rueda.torch as hvd
from rueda.torch import tensors

NAMES = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "uint16", "uint32", "uint64", "complex32"]
MOVED = [getattr(torch, name) for name in NAMES if hasattr(torch, name)]
UNKNOWN = [dtype for dtype in MOVED if dtype not in tensors.DTYPES]


def of_rank(rank, rows, dtype):
    """Rows of four elements. Every byte is the number of the rank."""
    width = torch.empty(0, dtype=dtype).element_size()
    return torch.full((rows, 4 * width), rank + 1, dtype=torch.uint8).view(dtype)


def same(first, second):
    """Whether shape, dtype and bytes are."""
    return first.dtype == second.dtype and first.shape == second.shape and torch.equal(first.view(torch.uint8), second.view(torch.uint8))


@pytest.fixture(params=MOVED, ids=str)
def dtype(request):
    return request.param


def mine(dtype, rows=2):
    return of_rank(hvd.rank(), rows, dtype)


def test_a_broadcast_moves_it(dtype):
    wanted = of_rank(1, 2, dtype)
    given = mine(dtype)
    assert same(hvd.broadcast(given, 1), wanted) and same(given, mine(dtype))
    assert hvd.broadcast_(given, 1) is given and same(given, wanted)
    state = {"weight": mine(dtype)}
    hvd.broadcast_parameters(state, root_rank=1)
    assert same(state["weight"], wanted)


def test_a_gathering_moves_it(dtype):
    wanted = torch.cat([of_rank(rank, rank + 1, dtype).view(torch.uint8) for rank in range(hvd.size())]).view(dtype)
    assert same(hvd.allgather(mine(dtype, hvd.rank() + 1)), wanted)
    first, second = hvd.grouped_allgather([mine(dtype, hvd.rank() + 1), torch.ones(1)])
    assert same(first, wanted) and second.tolist() == [1.0] * hvd.size()
    assert hvd.allgather(mine(dtype, 0)).shape == (0, 4)


def test_an_exchange_moves_it(dtype):
    wanted = torch.cat([of_rank(rank, 2, dtype).view(torch.uint8) for rank in range(hvd.size())]).view(dtype)
    assert same(hvd.alltoall(mine(dtype, 2 * hvd.size())), wanted)
    output, received = hvd.alltoall(mine(dtype, 2 * hvd.size()), splits=[2] * hvd.size())
    assert same(output, wanted) and received.tolist() == [2] * hvd.size()


def test_a_message_moves_it(dtype):
    following, before = (hvd.rank() + 1) % hvd.size(), (hvd.rank() - 1) % hvd.size()
    sent = hvd.send_async(mine(dtype), following)
    assert same(hvd.recv(torch.empty(2, 4, dtype=dtype), before), of_rank(before, 2, dtype))
    sent.wait()


REDUCING = {
    "allreduce": lambda t: hvd.allreduce(t, op=hvd.Sum),
    "allreduce_": lambda t: hvd.allreduce_(t, op=hvd.Max),
    "grouped_allreduce": lambda t: hvd.grouped_allreduce([torch.ones(1), t]),
    "grouped_allreduce_": lambda t: hvd.grouped_allreduce_([t]),
    "reducescatter": lambda t: hvd.reducescatter(t),
    "reducescatter_": lambda t: hvd.reducescatter_(t),
    "grouped_reducescatter": lambda t: hvd.grouped_reducescatter([t]),
}


@pytest.mark.parametrize("form", REDUCING)
@pytest.mark.parametrize("dtype", UNKNOWN, ids=str)
def test_a_reduction_refuses_it(form, dtype):
    with pytest.raises(ValueError, match=f"{dtype} can be moved.*not reduced; uint8, .* can be reduced"):
        REDUCING[form](mine(dtype))


def test_ranks_that_give_other_sizes_or_a_known_dtype_disagree():
    odd = hvd.rank() == 1
    narrow = mine(UNKNOWN[0])
    wide = torch.zeros(2, 4, dtype=torch.complex32)
    for other in (wide, narrow.view(torch.uint8)):
        if other.dtype is not narrow.dtype:
            with pytest.raises(hvd.MismatchError, match="bytes"):
                hvd.broadcast(other if odd else narrow, 0, name="sizes")


def test_quantised_tensors_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer PyTorch deprecates them
        quantised = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    with pytest.raises(ValueError, match="qint8 is not supported.*scale"):
        hvd.broadcast(quantised, 0)


RECORD = np.dtype([("step", "i4"), ("loss", "f8"), ("name", "U3")])
ARRAYS = {
    "structured": lambda rank: np.array([(rank, rank / 2, f"r{rank}"), (7, 0.5, "all")], dtype=RECORD),
    "text": lambda rank: np.array([f"rank {rank}", "all"]),
    "bytes": lambda rank: np.array([b"%d" % rank, b"all"]),
    "dates": lambda rank: np.array(["2000-01-01", f"2000-01-0{rank + 2}"], dtype="datetime64[D]"),
    "big-endian": lambda rank: np.array([rank, 1.5], dtype=">f4"),
    "longdouble": lambda rank: np.array([rank, 1.5], dtype="longdouble"),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_of_any_dtype_without_objects_are_broadcast(kind):
    given, wanted = ARRAYS[kind](hvd.rank()), ARRAYS[kind](1)
    result = rueda.numpy.broadcast(given, 1)
    assert result.dtype == wanted.dtype and np.array_equal(result, wanted)
    assert rueda.numpy.broadcast_(given, 1) is given and np.array_equal(given, wanted)
    with pytest.raises(ValueError, match="can be moved.*not reduced"):
        rueda.numpy.allreduce(given)


@pytest.mark.parametrize("array, says", [
    (np.array([print, None]), "object is not supported: it holds Python objects"),
    (np.zeros(2, dtype=[("a", "i4"), ("b", "O")]), "it holds Python objects"),
    (np.zeros(2, dtype="V0"), "elements of 0 bytes; only 1 to 8388607"),
    (np.zeros(1, dtype="V8388608"), "elements of 8388608 bytes"),
], ids=["objects", "a field of objects", "no bytes", "too many bytes"])  # fmt: skip
def test_arrays_that_cannot_be_moved_are_refused(array, says):
    with pytest.raises(ValueError, match=says):
        rueda.numpy.broadcast(array, 0)
