"""DistributedDataParallel's buckets in memory that the ranks of this host reduce where it lies.

    bucket     | g0 |  g1  |   g2   |   a tensor that PyTorch makes; with gradient_as_bucket_view=True gradients are views of it
    place()    | g0 |  g1  |   g2   |   the same tensors and their values, in shared memory

PyTorch asks no backend in Python for the memory of buckets. So a bucket moves when it is about to be reduced for the first time: the
bucket and the gradients stay the tensors that they are, and get another storage by Tensor.data. A bucket is known by its gradients,
which have it as their base. If these do not fill it, or if anything else uses its memory, such as an array of NumPy, it stays where it
is. So do the buckets of gradient_as_bucket_view=False, whose gradients lie elsewhere.
"""

import functools
import sys
import weakref
from typing import Any, Iterable, List, Set, Tuple

import torch

from rueda import session
from rueda.torch.distributed import allocations

_SMALLEST = 32 << 10  # bytes; shorter tensors are not reduced in place
_PATIENCE = 1000  # backward passes in a row without a bucket that moves; then looking for them would cost more than it may gain


class _Reducer:
    """The parameters of a reducer of PyTorch's, which has a bucket for each few of them."""

    def __init__(self, parameters: List[torch.Tensor]):
        self._parameters = parameters
        self._last_pass, self._passes = -1, 0

    def place(self, bucket: torch.Tensor, backward_pass: int) -> bool:
        """Moves the bucket, if it is one of this reducer's and may move. Returns whether it has."""
        if self._passes > _PATIENCE:
            return False
        if backward_pass != self._last_pass:
            self._last_pass, self._passes = backward_pass, self._passes + 1
        gradients = [each.grad for each in self._parameters if each.grad is not None and each.grad._base is bucket]
        fill = bool(gradients) and sum(each.numel() for each in gradients) == bucket.numel() and bucket.is_contiguous()
        if not fill or not _are_all_users(bucket, gradients) or not _move(bucket, gradients):
            return False
        self._passes = 0
        return True


def _users(storage: Any) -> Tuple[int, int]:
    """How many tensors use this storage, plus one for its object, and the references to the object itself."""
    return torch._C._storage_Use_Count(storage._cdata), sys.getrefcount(storage)


@functools.lru_cache(maxsize=None)
def _references() -> int:
    """The references to the object of a storage that nothing else uses; 0 if PyTorch does not count an array over a tensor's memory as a
    user, as old versions do not."""
    if not hasattr(torch._C, "_storage_Use_Count") or not hasattr(torch._C, "_current_graph_task_id"):
        return 0
    tensor = torch.empty(1, device="cpu")
    users, references = _users(tensor.untyped_storage())
    array = tensor.numpy()
    counts = array.size == 1 and users == 2 and _users(tensor.untyped_storage())[0] == 3
    return references if counts else 0


def _are_all_users(bucket: torch.Tensor, gradients: List[torch.Tensor]) -> bool:
    """Whether nothing but these tensors uses the bucket's memory. The reducer makes further views once it has reduced the bucket."""
    return _users(bucket.untyped_storage()) == (1 + len(gradients) + 1, _references())


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
    if here.local_size < here.size or _references() == 0:
        return
    if here is not _placed_in:
        _placed, _placed_in = set(), here
    backward_pass = torch._C._current_graph_task_id()  # -1 outside of a backward pass
    if backward_pass >= 0 and tensor.data_ptr() not in _placed:
        any(reducer.place(tensor, backward_pass) for reducer in list(_reducers.values()))


def _move(bucket: torch.Tensor, gradients: List[torch.Tensor]) -> bool:
    memory = allocations.lasting(bucket.numel(), bucket.dtype)
    if memory is None:
        return False
    begin = bucket.storage_offset()
    with torch.no_grad():
        memory.copy_(bucket)
        views = [memory.as_strided(each.size(), each.stride(), each.storage_offset() - begin) for each in gradients]
    for each, view in zip([bucket, *gradients], [memory, *views]):
        each.data = view
    _placed.add(bucket.data_ptr())
    return True
