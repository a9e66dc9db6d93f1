"""The functions for NumPy arrays give the formula too."""

import inspect

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


def test_every_operation_of_arrays_that_rueda_torch_has_is_here_with_the_same_arguments():
    import rueda.torch

    only_torch = {"DistributedOptimizer", "SyncBatchNorm", "broadcast_optimizer_state", "elastic", "sparse_allreduce_async"}
    assert set(rueda.torch.__all__) - set(hvd.__all__) == only_torch
    others = {"empty", "empty_like", "join", "join_async", "zeros", "zeros_like"}  # as NumPy has them; without a device
    operations = {name for name in hvd.__all__ if inspect.isfunction(getattr(hvd, name))} - others
    assert len(operations) > 40
    for name in operations:
        ours, torchs = (inspect.signature(getattr(module, name)).parameters.values() for module in (hvd, rueda.torch))
        assert [(each.name, each.kind) for each in ours] == [(each.name, each.kind) for each in torchs], name
        assert [each.default for each in ours if each.name != "compression"] == [each.default for each in torchs if each.name != "compression"], name


@pytest.mark.parametrize("compression, exact", [(hvd.Compression.none, True), (hvd.Compression.fp16, False), (hvd.Compression.bf16, False)])
def test_compression_rounds_what_is_sent_and_leaves_the_dtype(compression, exact):
    mine = np.full(4, 1 + 2.0**-12 + hvd.rank(), "float32")  # neither of the short formats has 2^-12 beside 1
    total = np.full(4, hvd.size() * (1 + 2.0**-12) + sum(range(hvd.size())))
    for result in (
        hvd.allreduce(mine, compression=compression, op=hvd.Sum),
        hvd.grouped_allreduce([mine], compression=compression, op=hvd.Sum)[0],
        np.concatenate(hvd.allgather_object(hvd.reducescatter(mine, compression=compression, op=hvd.Sum))),
        np.concatenate(hvd.allgather_object(hvd.grouped_reducescatter([mine], compression=compression, op=hvd.Sum)[0])),
    ):
        assert result.dtype == np.float32 and np.allclose(result, total, rtol=2.0**-7)
        assert np.array_equal(result, total.astype("float32")) == exact


def test_a_class_with_compress_and_decompress_is_a_compressor():
    class Halves:
        @staticmethod
        def compress(array):
            return array / 2, array.dtype

        @staticmethod
        def decompress(array, ctx):
            return (array * 2).astype(ctx)

    mine = np.arange(6.0) + hvd.rank()
    total = sum(np.arange(6.0) + rank for rank in range(hvd.size()))
    assert np.array_equal(hvd.allreduce(mine, compression=Halves, op=hvd.Sum), total)
    assert np.array_equal(hvd.grouped_allreduce([mine], compression=Halves, op=hvd.Sum)[0], total)
    assert np.array_equal(hvd.reducescatter(mine, compression=Halves, op=hvd.Sum), np.array_split(total, hvd.size())[hvd.rank()])
    with pytest.raises(ValueError, match="compression='fp16': give Compression.none"):
        hvd.allreduce(mine, compression="fp16")
    small, context = hvd.Compression.fp16.compress(mine)
    assert small.dtype == np.float16 and hvd.Compression.fp16.decompress(small, context).dtype == mine.dtype
    sent, context = hvd.Compression.none.compress(mine)
    assert sent is mine and context is None


def test_average_is_deprecated_and_means_op():
    with pytest.warns(DeprecationWarning, match="average= is deprecated"):
        assert np.array_equal(hvd.allreduce(np.ones(2), average=False), np.full(2, hvd.size()))
    with pytest.warns(DeprecationWarning, match="average= is deprecated"):
        assert np.array_equal(hvd.allreduce_(np.ones(2), True), np.ones(2))
    with pytest.raises(ValueError, match="give op= or average=, not both"):
        hvd.grouped_allreduce([np.ones(2)], average=True, op=hvd.Sum)
    hvd.barrier()


def test_parameters_become_the_roots_in_place():
    def parameters(rank):
        return {"layers": [np.full((2, 3), rank), [("bias", np.full(2, rank, "float16"))]], "scale": np.array(float(rank)), "steps": 3}

    mine, root = parameters(hvd.rank()), hvd.size() - 1
    gaps = np.full((3, 4), hvd.rank()).T
    hvd.broadcast_parameters({"gaps": gaps, **mine}, root)
    assert np.array_equal(gaps, np.full((4, 3), root)) and mine["scale"] == root
    assert np.array_equal(mine["layers"][0], np.full((2, 3), root)) and np.array_equal(mine["layers"][1][0][1], np.full(2, root))
    hvd.broadcast_parameters(iter([("a", np.ones(1))]), 0)
    for wrong, says in ((3, "params is a int; give a dict or a list of arrays"), ({"a": {1}}, r"parameter.a is a set; only arrays in dicts")):
        with pytest.raises(ValueError, match=says):
            hvd.broadcast_parameters(wrong, 0)
    fixed = np.ones(1)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="parameter.0 is read-only"):
        hvd.broadcast_parameters([fixed], 0)
    hvd.barrier()


def test_groups_give_the_formula_in_place_too():
    n, r = hvd.size(), hvd.rank()
    arrays = [np.full(3, r, "float32"), np.arange(4) + r]
    wanted = [np.full(3, n * (n - 1) / 2), n * np.arange(4) + n * (n - 1) // 2]
    for results in (hvd.grouped_allreduce(arrays, op=hvd.Sum), hvd.grouped_allreduce_(arrays, op=hvd.Sum)):
        assert all(np.array_equal(result, want) for result, want in zip(results, wanted))
    assert np.array_equal(arrays[0], wanted[0])
    gathered = hvd.grouped_allgather([np.array([r]), np.full((1, 2), r)])
    assert gathered[0].tolist() == list(range(n)) and gathered[1].shape == (n, 2)
    dealt = hvd.grouped_reducescatter([np.arange(n + 1), np.ones(n)], op=hvd.Sum)
    assert np.array_equal(dealt[0], n * np.array_split(np.arange(n + 1), n)[r]) and dealt[1].tolist() == [n]
    with pytest.raises(ValueError, match="give a list of arrays, not a ndarray"):
        hvd.grouped_allreduce(np.ones(2))


def test_rows_are_gathered_exchanged_and_dealt_out():
    n, r = hvd.size(), hvd.rank()
    assert hvd.allgather(np.full(r, r)).tolist() == [rank for rank in range(n) for _ in range(rank)]
    assert hvd.allgather(np.array([f"rank {r}"])).tolist() == [f"rank {rank}" for rank in range(n)]
    assert hvd.alltoall(np.arange(n) + 10 * r).tolist() == [10 * rank + r for rank in range(n)]
    output, received = hvd.alltoall(np.repeat(np.arange(n), np.arange(n)), splits=np.arange(n))
    assert output.tolist() == [r] * (n * r) and received.tolist() == [r] * n
    with pytest.raises(ValueError, match=f"splits=.*give {n} integers"):
        hvd.alltoall(np.ones(2), splits=[1.5])
    whole = np.arange(2.0 * n)
    assert hvd.reducescatter(whole).tolist() == whole[2 * r : 2 * r + 2].tolist()
    own = hvd.reducescatter_(whole, op=hvd.Sum)
    assert own.base is whole and own.tolist() == [n * 2.0 * r, n * (2.0 * r + 1)]
    with pytest.raises(ValueError, match="an array of no dimension has none"):
        hvd.reducescatter(1.0)
    hvd.barrier()


def test_objects_and_messages_travel():
    assert hvd.broadcast_object({"rank": hvd.rank()}, 1) == {"rank": 1}
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))
    if hvd.rank() == 0:
        hvd.send(np.arange(3), 1)
    elif hvd.rank() == 1:
        assert hvd.recv(np.zeros(3, int), 0).tolist() == [0, 1, 2]
    handle = hvd.broadcast_async_(np.full(2, hvd.rank()), 1)
    assert hvd.synchronize(handle).tolist() == [1, 1] and hvd.poll(handle)
    hvd.barrier_async().wait()


def test_tensors_of_other_frameworks_are_taken_without_a_copy_and_give_back_arrays():
    import torch

    from rueda.numpy.arrays import array_of

    tensor = torch.full((2, 3), float(hvd.rank()))
    assert array_of(tensor).ctypes.data == tensor.data_ptr()
    mean = hvd.allreduce(tensor)
    assert isinstance(mean, np.ndarray) and torch.from_dlpack(mean).tolist() == [[(hvd.size() - 1) / 2] * 3] * 2

    class OnDevice:
        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, **_):
            raise AssertionError("must not be asked")

    with pytest.raises(ValueError, match="a OnDevice is on a device .DLPack's type 2.; rueda.numpy takes memory of the host"):
        hvd.allreduce(OnDevice())
    with pytest.raises(ValueError, match="a Tensor cannot be read by DLPack"):
        hvd.allreduce(torch.ones(2, dtype=torch.bfloat16))


def test_it_shares_the_session_with_rueda_torch():
    import torch

    import rueda.torch

    assert rueda.torch.is_initialized() and rueda.torch.rank() == hvd.rank()
    assert rueda.torch.allreduce(torch.ones(1), op=rueda.torch.Sum).item() == hvd.allreduce(np.ones(1), op=hvd.Sum)[0]
