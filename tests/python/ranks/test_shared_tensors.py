"""Tensors in memory that the ranks of the host map, made by rueda.torch and rueda.numpy."""

import gc
import os

import numpy
import pytest
import torch

import rueda.numpy
import rueda.torch as hvd
from rueda.torch import gradient_buffers

LONG = 50_000  # elements of a tensor that is reduced in place


def in_place():
    """The number of batches that were reduced in place so far."""
    return sum(row["batches"] for row in hvd.stats()["algorithms"] if row["name"] == "shm_shared")


def held():
    return hvd.stats()["memory_bytes"]["shared_tensors"]


def expects_sharing():
    return hvd.local_size() == hvd.size() > 1


def test_a_shared_tensor_is_like_any_other_and_is_reduced_in_place():
    before = in_place()
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        tensor = hvd.zeros(LONG, 2, dtype=dtype)
        assert tensor.shape == (LONG, 2) and tensor.dtype == dtype and not tensor.any()
        tensor.fill_(hvd.rank() + 1)
        hvd.allreduce_(tensor, op=hvd.Sum, name=f"shared.{dtype}")
        assert (tensor == hvd.size() * (hvd.size() + 1) // 2).all()
    assert in_place() - before == (3 if expects_sharing() else 0)


def test_a_view_keeps_the_memory_and_the_last_one_frees_it():
    gc.collect()
    before = held()
    tensor = hvd.empty(LONG)
    view = tensor[10:20].fill_(3)
    del tensor
    gc.collect()
    assert (held() > before) == expects_sharing()
    assert (view == 3).all()
    del view
    gc.collect()
    assert held() == before


def test_forms_and_likes_follow_torch():
    assert hvd.empty((2, 3)).shape == hvd.empty(2, 3).shape == (2, 3)
    assert hvd.empty(torch.Size([4])).shape == (4,)
    assert hvd.empty(()).shape == () and hvd.empty(0, 5).shape == (0, 5)
    assert hvd.empty(2, requires_grad=True).requires_grad
    like = torch.empty(2, 3, 4, 5, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
    made = hvd.zeros_like(like)
    assert made.shape == like.shape and made.dtype == like.dtype and made.stride() == like.stride() and not made.any()
    assert hvd.empty_like(like, dtype=torch.float16).dtype == torch.float16


def test_a_wrong_shape_or_device_is_refused():
    for size in (("a",), (-1,), (2.5,), ((1, "b"),)):
        with pytest.raises(ValueError, match="empty"):
            hvd.empty(*size)
    with pytest.raises(ValueError, match="meta"):
        hvd.empty(2, device="meta")
    with pytest.raises(ValueError, match="objects"):
        rueda.numpy.empty(2, dtype=object)


def test_more_than_the_budget_is_an_error_and_leaves_the_rest_usable():
    if not expects_sharing():
        pytest.skip("no other rank on this host")
    with pytest.raises(hvd.HorovodInternalError, match="RUEDA_SHARED_TENSOR_BYTES"):
        hvd.empty(1 << 44, dtype=torch.uint8)
    assert not hvd.zeros(3).any()


def test_arrays_of_numpy_lie_there_too_and_pass_through_dlpack():
    before = in_place()
    array = rueda.numpy.zeros((LONG, 2), dtype=numpy.float32)
    array += hvd.rank()
    rueda.numpy.allreduce_(array, op=hvd.Sum, name="shared.numpy")
    assert (array == hvd.size() * (hvd.size() - 1) / 2).all()
    array[:] = hvd.rank()
    tensor = torch.from_dlpack(array)
    del array
    gc.collect()
    hvd.allreduce_(tensor, op=hvd.Sum, name="shared.dlpack")
    assert (tensor == hvd.size() * (hvd.size() - 1) / 2).all()
    assert in_place() - before == (2 if expects_sharing() else 0)
    assert rueda.numpy.empty_like(numpy.ones((3, 4), dtype="i2")).dtype == numpy.int16
    assert rueda.numpy.zeros_like([1.0, 2.0]).shape == (2,)


def test_gradients_as_views_are_reduced_in_place_without_asking():
    model = torch.nn.Linear(300, 300)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(),
                                         gradient_as_buffer_view=True)  # fmt: skip
    before = in_place()
    for step in range(3):
        optimizer.zero_grad()
        model(torch.full((2, 300), float(hvd.rank() + step))).sum().backward()
        optimizer.step()
        mean = (hvd.size() - 1) / 2 + step
        assert torch.allclose(model.weight.grad, torch.full((300, 300), 2 * mean))
    # The first reduction of a buffer compares the layout, view by view.
    assert in_place() - before >= (2 if expects_sharing() else 0)


def test_a_spent_budget_gives_gradient_buffers_private_memory(monkeypatch):
    def refuse(*_, **__):
        raise hvd.HorovodInternalError("the budget is spent")

    monkeypatch.setattr(gradient_buffers, "zeros", refuse)
    model = torch.nn.Linear(30, 3)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(),
                                         gradient_as_buffer_view=True)  # fmt: skip
    model(torch.ones(2, 30)).sum().backward()
    optimizer.step()
    assert torch.allclose(model.bias.grad, torch.full((3,), 2.0))


def test_a_forked_child_reads_a_shared_tensor_and_its_writes_stay_its_own():
    tensor = hvd.zeros(LONG).fill_(3)
    child = os.fork()
    if child == 0:
        try:
            reads = bool((tensor == 3).all())
            tensor.fill_(9)
            del tensor
            gc.collect()
            os._exit(0 if reads else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert (tensor == 3).all()
    hvd.allreduce_(tensor, op=hvd.Sum, name="shared.after_fork")
    assert (tensor == 3 * hvd.size()).all()
