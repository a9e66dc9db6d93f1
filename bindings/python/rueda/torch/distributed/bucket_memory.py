"""DistributedDataParallel's buckets in memory that the ranks of this host reduce where it lies.

    bucket      | g0 |  g1  |   g2   |   a tensor that PyTorch makes; with gradient_as_bucket_view=True gradients are views of it
    place()     | g0 |  g1  |   g2   |   the same tensors and their values, over memory of the pool

PyTorch asks no backend in Python for the memory of buckets. So a bucket moves when it is about to be reduced for the first time: the
bucket and the gradients stay the tensors that they are, and get another storage by Tensor.data. A bucket is known by its gradients, which have it as
their base. If these do not fill it, or if anything else uses its memory, such as an array of NumPy, it stays where it is. So do the buckets of gradient_as_bucket_view=False, whose gradients lie elsewhere.
"""

import functools
import weakref
from typing import Any, Iterable, List, Set

import torch

from rueda import session
from rueda.torch.distributed import allocations

_SMALLEST = 32 << 10  # bytes; shorter tensors are not reduced in place
_PATIENCE = 64  # tensors in a row that do not move, after which a reducer is looked at no more


class _Reducer:
    """The parameters of a reducer of PyTorch's, which has a bucket for each few of them."""

    def __init__(self, parameters: List[torch.Tensor]):
        self._parameters = parameters
        self._strangers = 0

    def place(self, bucket: torch.Tensor) -> bool:
        """Moves the bucket, if it is one of this reducer's and may move. Returns whether it has."""
        if self._strangers > _PATIENCE:
            return False
        gradients = [each.grad for each in self._parameters if each.grad is not None and each.grad._base is bucket]
        if not gradients or sum(each.numel() for each in gradients) != bucket.numel() or not _are_all_users(bucket, gradients):
            self._strangers += 1
            return False
        self._strangers = 0
        _move(bucket, gradients)
        return True


def _users(storage: Any) -> int:
    """How many tensors use this storage, and objects of Python's that stand for it."""
    return int(torch._C._storage_Use_Count(storage._cdata))


@functools.lru_cache(maxsize=None)
def _counts_arrays() -> bool:
    """Whether PyTorch counts the users of a storage, and an array over a tensor's memory as one. Old versions do not."""
    if not hasattr(torch._C, "_storage_Use_Count"):
        return False
    tensor = torch.empty(1)
    storage = tensor.untyped_storage()
    before = _users(storage)
    array = tensor.numpy()
    return array.size == 1 and before < _users(storage)


def _are_all_users(bucket: torch.Tensor, gradients: List[torch.Tensor]) -> bool:
    """Whether nothing but these tensors uses the bucket's memory. The reducer makes further views once it has reduced the bucket."""
    return _counts_arrays() and _users(bucket.untyped_storage()) == 1 + len(gradients) + 1  # the last is the storage's own object


_reducers: Any = weakref.WeakKeyDictionary()
_placed: Set[int] = set()  # addresses of buckets
_placed_in: Any = None  # the session to which they belong


def watch(reducer: Any, parameters: Iterable[torch.Tensor]) -> None:
    """Has place() look at the gradients of these parameters, as long as the reducer lives."""
    _reducers[reducer] = _Reducer(list(parameters))


def place(tensor: torch.Tensor) -> None:
    """Moves a tensor that is about to be reduced, if it is a bucket and all ranks of the job are on this host."""
    global _placed, _placed_in
    if not _reducers or tensor.numel() * tensor.element_size() < _SMALLEST or not allocations.serves(tensor.device):
        return
    here = session.current()
    if here.local_size < here.size:
        return
    if here is not _placed_in:
        _placed, _placed_in = set(), here
    if tensor.data_ptr() not in _placed:
        any(reducer.place(tensor) for reducer in list(_reducers.values()))


def _move(bucket: torch.Tensor, gradients: List[torch.Tensor]) -> None:
    memory = allocations.shared(bucket.numel(), bucket.dtype)
    if memory is None or not bucket.is_contiguous():
        return
    with torch.no_grad():
        memory.copy_(bucket)
        begin = bucket.storage_offset()
        for each in gradients:
            each.data = memory.as_strided(each.size(), each.stride(), each.storage_offset() - begin)
        bucket.data = memory
    _placed.add(bucket.data_ptr())
