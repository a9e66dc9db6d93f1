"""Sparse tensors added up over ranks: one gathering of what each rank has, indices and values behind a description of them.

    | count of dimensions | dtype | sparse dimensions | entries | extents ... | indices ... | values ... | up to 8 bytes |

all but the values 64-bit integers.
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch

from rueda import errors, operations
from rueda._native import lib
from rueda.handles import Handle
from rueda.operations import ALLGATHER, Average
from rueda.process_sets import ProcessSet, global_process_set, ranks_of
from rueda.torch import tensors
from rueda.torch.rows import start_rows, take_bytes

_WORD = 8


def sparse_allreduce_async(tensor: torch.Tensor, name: Optional[str], op: int = Average,
                           process_set: ProcessSet = global_process_set) -> Callable[[], torch.Tensor]:
    """Adds up sparse tensors of one shape and dtype: gathers the entries of all ranks, of which some may have none. op: Average
    or Sum.

    Returns a function that waits and returns the reduced sparse tensor; it raises MismatchError, the same on all ranks, where
    shapes, dtypes or numbers of sparse dimensions differ.
    """
    return start_sparse(tensor, name, op, process_set).wait


def start_sparse(tensor: torch.Tensor, name: Optional[str], op: int, process_set: ProcessSet) -> Handle:
    """The same as a handle, whose result is the reduced tensor."""
    if op not in (Average, operations.Sum):
        raise ValueError("a sparse tensor is reduced with Average or Sum")
    if not tensor.is_sparse:
        raise ValueError(f"the tensor's layout is {tensor.layout}; sparse_allreduce_async() reduces sparse ones")
    ranks = ranks_of(process_set)

    def finish(handle: Handle) -> torch.Tensor:
        parts = [_Part(piece) for piece in take_bytes(handle, process_set)]
        _require_equal(name, ranks, parts)
        values = torch.cat([part.values for part in parts])
        if op == Average and len(ranks) > 1:
            values = values / len(ranks)
        indices = torch.cat([part.indices for part in parts], dim=1)
        return torch.sparse_coo_tensor(indices, values, parts[0].shape, device=tensor.device).coalesce()

    return start_rows(ALLGATHER, _packed(tensor.detach().coalesce()), None, 0, name, process_set, finish)


def empty_like(tensor: torch.Tensor, sparse_dimensions: int) -> torch.Tensor:
    """A sparse tensor of this shape without entries."""
    indices = torch.empty(sparse_dimensions, 0, dtype=torch.int64, device=tensor.device)
    values = torch.empty(0, *tensor.shape[sparse_dimensions:], dtype=tensor.dtype, device=tensor.device)
    return torch.sparse_coo_tensor(indices, values, tensor.shape)


def _packed(entries: torch.Tensor) -> torch.Tensor:
    indices, values = entries.indices().cpu(), tensors.resolved(entries.values()).cpu()
    shape = list(entries.shape)
    description = torch.tensor([len(shape), tensors.dtype_number(values), *indices.shape, *shape])
    parts = [part.contiguous().view(-1).view(torch.uint8) for part in (description, indices, values)]
    return torch.cat([*parts, torch.zeros(-len(parts[2]) % _WORD, dtype=torch.uint8)])


class _Part:
    """What one rank gave."""

    def __init__(self, piece: memoryview):
        dimensions, dtype, sparse_dimensions, entries = _numbers(piece, 0, 4)
        self.shape = _numbers(piece, 4, dimensions)
        self.dtype, self.sparse_dimensions = tensors.torch_dtype(dtype), sparse_dimensions
        first, count = (4 + dimensions) * _WORD, sparse_dimensions * entries
        self.indices = _elements(piece, first, torch.int64, (sparse_dimensions, entries))
        self.values = _elements(piece, first + count * _WORD, self.dtype, (entries, *self.shape[sparse_dimensions:]))

    def kind(self) -> Tuple[Any, ...]:
        return self.shape, self.dtype, self.sparse_dimensions

    def __str__(self) -> str:
        return f"shape {self.shape} of {self.dtype} with {self.sparse_dimensions} sparse dimensions"


def _numbers(piece: memoryview, first: int, count: int) -> List[int]:
    return list(piece[first * _WORD : (first + count) * _WORD].cast("q"))


def _elements(piece: memoryview, offset: int, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    count = torch.Size(shape).numel()
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(piece, dtype=dtype, count=count, offset=offset).view(shape)


def _require_equal(name: Optional[str], ranks: Sequence[int], parts: Sequence[_Part]) -> None:
    for rank, part in zip(ranks, parts):
        if part.kind() != parts[0].kind():
            operation = "sparse all-reduce" if name is None else f'sparse all-reduce "{name}"'
            raise errors.MismatchError(f"{operation}: rank {ranks[0]} gave {parts[0]}, rank {rank} {part}", lib.RUEDA_MISMATCH)
