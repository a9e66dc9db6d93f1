"""What several test files of the ranks share."""

import torch

import rueda.torch as hvd

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
DTYPES = FLOATS + INTEGERS + [torch.bool]


def value(rank, shape, dtype):
    """What a rank puts in: small enough that every sum and product of three ranks is exact in every dtype."""
    count = int(torch.Size(shape).numel())
    numbers = (torch.arange(count) + rank) % 4 + 1
    return (numbers % 2 if dtype == torch.bool else numbers).reshape(shape).to(dtype)


def all_values(shape, dtype):
    """Every rank's value, stacked, in a dtype in which arithmetic is exact."""
    return torch.stack([value(rank, shape, dtype) for rank in range(hvd.size())]).to(torch.float64)


def expected(shape, dtype, op):
    """What a reduction of every rank's value gives."""
    values = all_values(shape, dtype)
    if op == hvd.Average:
        mean = values.sum(0) / hvd.size()
        result = mean if dtype in FLOATS else mean.trunc()
    else:
        result = {hvd.Sum: values.sum(0), hvd.Min: values.amin(0), hvd.Max: values.amax(0), hvd.Product: values.prod(0)}[op]
    return (result != 0).to(dtype) if dtype == torch.bool else result.to(dtype)


def same_on_all_ranks(tensor):
    """Whether every rank holds the same bits."""
    tensor = tensor.detach()
    return torch.equal(hvd.allreduce(tensor, op=hvd.Min), tensor) and torch.equal(hvd.allreduce(tensor, op=hvd.Max), tensor)
