"""Each collective, for each dtype and form, gives what the formula says."""

import warnings

import pytest
import torch

import rueda.torch as hvd
from helpers import DTYPES, FLOATS, INTEGERS, all_values, expected, value

OPS = [hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product]
SHAPES = [(), (0,), (1,), (17,), (3, 4, 5)]


def ops_of(dtype):
    return [hvd.Sum, hvd.Min, hvd.Max, hvd.Product] if dtype == torch.bool else OPS


FORMS = {
    "allreduce": lambda t, op: hvd.allreduce(t, op=op),
    "allreduce_": lambda t, op: hvd.allreduce_(t, op=op),
    "allreduce_async": lambda t, op: hvd.synchronize(hvd.allreduce_async(t, op=op)),
    "allreduce_async_": lambda t, op: hvd.synchronize(hvd.allreduce_async_(t, op=op)),
    "grouped_allreduce": lambda t, op: hvd.grouped_allreduce([t, t.clone()], op=op)[1],
    "grouped_allreduce_": lambda t, op: hvd.grouped_allreduce_([t.clone(), t], op=op)[1],
    "grouped_allreduce_async": lambda t, op: hvd.synchronize(hvd.grouped_allreduce_async([t], op=op))[0],
    "grouped_allreduce_async_": lambda t, op: hvd.synchronize(hvd.grouped_allreduce_async_([t], op=op))[0],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_allreduce_gives_the_formula(form, dtype):
    for op in ops_of(dtype):
        for shape in SHAPES:
            mine = value(hvd.rank(), shape, dtype)
            given = mine.clone()
            result = FORMS[form](given, op)
            assert torch.equal(result, expected(shape, dtype, op)), (op, shape)
            assert (result is given) == form.endswith("_"), "in place means the tensor itself"
            if not form.endswith("_"):
                assert torch.equal(given, mine), "out of place leaves the input alone"


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_numbers_have_sums_products_and_averages(dtype):
    mine = torch.complex(torch.arange(5.0), torch.full((5,), float(hvd.rank() + 1))).to(dtype)
    every = torch.stack([torch.complex(torch.arange(5.0), torch.full((5,), rank + 1.0)).to(dtype) for rank in range(hvd.size())])
    assert torch.equal(hvd.allreduce(mine, op=hvd.Sum), every.sum(0))
    assert torch.allclose(hvd.allreduce(mine, op=hvd.Product), every.prod(0))
    assert torch.allclose(hvd.allreduce(mine), every.mean(0))
    assert torch.equal(hvd.broadcast(mine, 1), every[1])
    with pytest.raises(ValueError, match="complex"):
        hvd.allreduce(mine, op=hvd.Max)


@pytest.mark.parametrize("dtype", INTEGERS + [torch.bool], ids=str)
def test_integers_have_bitwise_operators(dtype):
    every = all_values((9,), dtype).to(dtype)
    for op, combine in [(hvd.BitAnd, torch.bitwise_and), (hvd.BitOr, torch.bitwise_or), (hvd.BitXor, torch.bitwise_xor)]:
        wanted = every[0]
        for other in every[1:]:
            wanted = combine(wanted, other)
        assert torch.equal(hvd.allreduce(value(hvd.rank(), (9,), dtype), op=op), wanted)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("root", [0, -1])
def test_a_broadcast_gives_the_root_s_tensor(dtype, root):
    root %= hvd.size()
    for shape in SHAPES:
        mine = value(hvd.rank(), shape, dtype)
        rooted = value(root, shape, dtype)
        assert torch.equal(hvd.broadcast(mine, root), rooted)
        assert torch.equal(hvd.synchronize(hvd.broadcast_async(mine, root)), rooted)
        given = mine.clone()
        assert hvd.broadcast_(given, root) is given
        assert torch.equal(given, rooted)
        given = mine.clone()
        assert hvd.synchronize(hvd.broadcast_async_(given, root)) is given
        assert torch.equal(given, rooted)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_factors_scale_the_input_and_the_sum(dtype):
    mine = value(hvd.rank(), (5,), dtype)
    total = all_values((5,), dtype).sum(0)
    result = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    assert torch.equal(result.double(), total * 2.0)


@pytest.mark.parametrize("compression", [hvd.Compression.fp16, hvd.Compression.bf16])
def test_compression_keeps_small_integers_exact(compression):
    mine = value(hvd.rank(), (33,), torch.float32)
    assert torch.equal(hvd.allreduce(mine, compression=compression, op=hvd.Sum), expected((33,), torch.float32, hvd.Sum))
    results = hvd.grouped_allreduce([mine, mine], compression=compression, op=hvd.Sum)
    assert torch.equal(results[1], expected((33,), torch.float32, hvd.Sum))


class Negation:
    @staticmethod
    def compress(tensor):
        return -tensor, "negated"

    @staticmethod
    def decompress(tensor, ctx):
        assert ctx == "negated"
        return -tensor


def test_a_compressor_of_the_user_s_is_applied_before_and_after():
    mine = value(hvd.rank(), (4,), torch.float32)
    assert torch.equal(hvd.allreduce(mine, compression=Negation, op=hvd.Min), expected((4,), torch.float32, hvd.Max))


def test_the_compressors_cast_forth_and_back():
    tensor = torch.ones(3)
    compressed, context = hvd.Compression.fp16.compress(tensor)
    assert compressed.dtype == torch.float16
    assert hvd.Compression.fp16.decompress(compressed, context).dtype == torch.float32
    assert hvd.Compression.none.compress(tensor)[0] is tensor


def test_dense_tensors_of_any_order_are_reduced_where_they_lie():
    tensor = value(hvd.rank(), (2, 3, 4, 5), torch.float32).to(memory_format=torch.channels_last)
    result = hvd.allreduce_(tensor, op=hvd.Sum)
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(result, expected((2, 3, 4, 5), torch.float32, hvd.Sum))
    fresh = hvd.allreduce(value(hvd.rank(), (2, 3), torch.float32).t(), op=hvd.Sum)
    assert torch.equal(fresh, expected((2, 3), torch.float32, hvd.Sum).t())


def test_strides_that_differ_between_ranks_are_a_mismatch():
    for shape in [(4, 4), (2, 3)]:
        tensor = torch.zeros(shape) if hvd.rank() == 0 else torch.zeros(shape[::-1]).t()
        with pytest.raises(hvd.MismatchError):
            hvd.allreduce_(tensor, name="strides")
    others = (2, 0, 1) if hvd.rank() == 0 else (2, 1, 0)  # neither is row-major
    tensor = torch.zeros(2, 2, 3).permute(others).contiguous().permute([others.index(dimension) for dimension in range(3)])
    with pytest.raises(hvd.MismatchError, match=r"order of dimensions in memory differs: rank 0 .* sent \[2, 0, 1\]"):
        hvd.allreduce(tensor, name="strides")


def test_a_tensor_with_gaps_is_refused_in_place_and_copied_else():
    whole = value(hvd.rank(), (4, 6), torch.float32)
    gappy = whole[:, ::2]
    with pytest.raises(ValueError, match="not contiguous"):
        hvd.allreduce_(gappy)
    with pytest.raises(ValueError, match="not contiguous"):
        hvd.broadcast_(torch.ones(1).expand(3), 0)
    assert torch.equal(hvd.allreduce(gappy, op=hvd.Sum), expected((4, 6), torch.float32, hvd.Sum)[:, ::2])


def test_many_operations_in_flight_may_be_waited_for_in_any_order():
    handles = [hvd.allreduce_async(torch.full((3,), float(i + hvd.rank())), name=f"many.{i}", op=hvd.Sum) for i in range(50)]
    if hvd.rank() % 2:
        handles.reverse()
    results = [hvd.synchronize(handle) for handle in handles]
    if hvd.rank() % 2:
        results.reverse()
    ranks = sum(range(hvd.size()))
    for i, result in enumerate(results):
        assert torch.equal(result, torch.full((3,), float(i * hvd.size() + ranks))), i


def test_a_barrier_lets_go_when_all_are_there():
    hvd.barrier()
    handle = hvd.barrier_async()
    assert hvd.synchronize(handle) is None
    assert hvd.poll(handle)


def test_average_is_deprecated_and_means_what_it_says():
    mine = value(hvd.rank(), (4,), torch.float32)
    with pytest.deprecated_call():
        assert torch.equal(hvd.allreduce(mine, average=True), expected((4,), torch.float32, hvd.Average))
    with pytest.deprecated_call():
        assert torch.equal(hvd.allreduce_(mine.clone(), average=False), expected((4,), torch.float32, hvd.Sum))


@pytest.mark.parametrize("call", [hvd.allreduce, hvd.allreduce_, lambda t, average: hvd.allreduce_async(t, average).wait(),
                                  lambda t, average: hvd.grouped_allreduce([t], average),
                                  lambda t, average: hvd.grouped_allreduce_([t], average)])  # fmt: skip
def test_what_is_deprecated_is_told_of_the_line_that_says_it(call):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call(torch.ones(1), average=True)
    assert [warning.filename for warning in told if warning.category is DeprecationWarning] == [__file__]


def test_numbers_are_those_that_a_lazily_conjugated_or_negated_tensor_shows():
    shown = torch.tensor([1 + 2j]).conj()
    assert torch.equal(hvd.allreduce(shown, op=hvd.Sum), hvd.size() * torch.tensor([1 - 2j]))
    assert torch.equal(hvd.broadcast(shown, 0), torch.tensor([1 - 2j]))
    assert hvd.allreduce(shown.imag, op=hvd.Sum).item() == -2.0 * hvd.size()
    with pytest.raises(ValueError, match="conjugated"):
        hvd.allreduce_(shown)
