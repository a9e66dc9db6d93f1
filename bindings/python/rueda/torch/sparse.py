"""Sparse tensors added up over ranks: one gathering of what each rank has, indices and values behind a description of them.

    | count of dimensions | dtype | sparse dimensions | entries | extents ... | indices ... | values ... | up to 8 bytes |

all but the values 64-bit integers. Where the ranks' entries were so many the last time that an all-reduce of the whole tensor
moves fewer bytes, it goes as such, with a column more that counts who has an entry.
"""

import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from rueda import errors, operations
from rueda._native import lib
from rueda.handles import Handle
from rueda.operations import ALLGATHER, ALLREDUCE, Average, Options
from rueda.process_sets import ProcessSet, global_process_set, id_of, ranks_of
from rueda.session import Session, current
from rueda.torch import tensors
from rueda.torch.asynchronous import start_in_place
from rueda.torch.rows import start_rows, take_bytes

_WORD = 8
_HALVES = (torch.float16, torch.bfloat16)


# Said, because PyTorch warns of what is not said; before 2.0 there was nothing to say.
_UNCHECKED = {"check_invariants": False} if hasattr(torch.sparse, "check_sparse_tensor_invariants") else {}


class History:
    """What a rank remembers of the reductions of one tensor, so that the next one goes as is fewer bytes. All ranks remember
    the same: what they decided together, since the last join."""

    def __init__(self) -> None:
        self.dimensions = 0  # sparse ones
        self._entries = 0  # of all ranks together, in the last reduction
        self._joins = -1

    def goes_dense(self, tensor: torch.Tensor, session: Session, process_set: int) -> bool:
        """Whether an all-reduce of the whole tensor, once there and once back, is fewer bytes than entries as they were."""
        real = tensor.is_floating_point() or tensor.is_complex()  # others cannot count ranks and be averaged exactly
        if self._joins != session.joins[process_set] or not real:
            return False
        rows = math.prod(tensor.shape[: tensor.sparse_dim()])
        row_bytes = math.prod(tensor.shape[tensor.sparse_dim() :]) * tensor.element_size()
        return self._entries * (_WORD * tensor.sparse_dim() + row_bytes) > 2 * rows * (row_bytes + tensor.element_size())

    def forget(self) -> None:
        """The next one goes as entries."""
        self._joins = -1

    def note(self, entries: int, session: Session, process_set: int) -> None:
        self._entries, self._joins = entries, session.joins[process_set]


class _Named:
    """The reductions of one name: their history, and the last one until its result is made. No rank may begin the next without
    that, since ranks decide by the history."""

    def __init__(self) -> None:
        self.history = History()
        self._last: Optional[Handle] = None

    def settle(self) -> None:
        """Makes the result of the last one, if the operation is over; else its name is in flight, and begins no other."""
        if self._last is None or not self._last.poll():
            return
        try:
            self._last.wait()
        except Exception:  # which is whoever waits for it to see
            self.history.forget()
        self._last = None

    def begun(self, handle: Handle) -> None:
        def made(_: Handle, result: torch.Tensor) -> torch.Tensor:
            self._last = None
            return result

        self._last = handle
        handle.also(made)


def sparse_allreduce_async(tensor: torch.Tensor, name: Optional[str], op: int = Average,
                           process_set: ProcessSet = global_process_set) -> Callable[[], torch.Tensor]:
    """Adds up sparse tensors of one shape and dtype: gathers the entries of all ranks, of which some may have none; or, where those
    of the last one of this name were so many that it is fewer bytes, all-reduces a dense table. op: Average or Sum.

    Returns a function that waits and returns the reduced sparse tensor; it raises MismatchError, the same on all ranks, where
    shapes, dtypes or numbers of sparse dimensions differ.
    """
    if name is None:
        return start_sparse(tensor, None, op, process_set, History()).wait
    known = current().sparse.setdefault((id_of(process_set), name), _Named())
    known.settle()
    handle = start_sparse(tensor, name, op, process_set, known.history)
    known.begun(handle)
    return handle.wait


def start_sparse(tensor: torch.Tensor, name: Optional[str], op: int, process_set: ProcessSet, history: History) -> Handle:
    """The same as a handle, whose result is the reduced tensor."""
    if op not in (Average, operations.Sum):
        raise ValueError("a sparse tensor is reduced with Average or Sum")
    if not tensor.is_sparse:
        raise ValueError(f"the tensor's layout is {tensor.layout}; sparse_allreduce_async() reduces sparse ones")
    ranks, entries = ranks_of(process_set), tensor.detach().coalesce()
    session, number_of_set = current(), id_of(process_set)
    divisor = len(ranks) if op == Average else 1
    history.dimensions = tensor.sparse_dim()

    def finish_dense(handle: Handle) -> torch.Tensor:
        indices, values, count = _entries_of(table, tensor.shape, tensor.sparse_dim(), divisor)
        history.note(count, session, number_of_set)
        return torch.sparse_coo_tensor(indices, values, tensor.shape, device=tensor.device, **_UNCHECKED).coalesce()

    def finish(handle: Handle) -> torch.Tensor:
        parts = [_Part(piece) for piece in take_bytes(handle, process_set)]
        _require_equal(name, ranks, parts)
        indices = torch.cat([part.indices for part in parts], dim=1)
        history.note(indices.shape[1], session, number_of_set)
        values = torch.cat([part.values for part in parts])
        return _reduced(indices, values, divisor, parts[0].shape, tensor.device)

    if history.goes_dense(tensor, session, number_of_set):
        table = _table(entries)
        handle = start_in_place(session, operations.encode_name(name), Options(ALLREDUCE, number_of_set, op), table)
        handle.then(finish_dense)
        return handle
    return start_rows(name, Options(ALLGATHER, number_of_set), _packed(entries), finish)


def _reduced(indices: torch.Tensor, values: torch.Tensor, divisor: int, shape: Sequence[int], device: Any) -> torch.Tensor:
    """Rounded once, as a dense all-reduce does it; whole numbers are averaged towards zero."""
    dtype = values.dtype
    whole = not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)
    wide = torch.float32 if dtype in _HALVES else torch.int64 if whole and divisor > 1 else dtype
    summed = torch.sparse_coo_tensor(indices, values.to(wide), shape, **_UNCHECKED).coalesce()
    if divisor > 1:
        mean = torch.div(summed.values(), divisor, rounding_mode="trunc") if whole else summed.values() / divisor
        summed = torch.sparse_coo_tensor(summed.indices(), mean, shape, **_UNCHECKED)
    return summed.to(device=device, dtype=dtype).coalesce()


def _table(entries: torch.Tensor) -> torch.Tensor:
    """The entries in rows of a dense tensor on the host, each with a 1 behind it."""
    dimensions = entries.sparse_dim()
    extents = torch.tensor(entries.shape[:dimensions])
    steps = torch.cat([extents[1:].flip(0).cumprod(0).flip(0), torch.ones(1, dtype=torch.int64)])
    columns = math.prod(entries.shape[dimensions:])
    table = torch.zeros(math.prod(entries.shape[:dimensions]), columns + 1, dtype=entries.dtype)
    rows = (entries.indices().cpu() * steps.unsqueeze(1)).sum(0)
    values = tensors.resolved(entries.values()).cpu()
    table[rows] = torch.cat([values.reshape(-1, columns), torch.ones(len(values), 1, dtype=entries.dtype)], dim=1)
    return table


def _entries_of(table: torch.Tensor, shape: Sequence[int], dimensions: int,
                divisor: int) -> Tuple[torch.Tensor, torch.Tensor, int]:  # fmt: skip
    """Indices and values of the rows that somebody had, and how many entries the ranks had together."""
    counts = (divisor * (table[:, -1].real if table.is_complex() else table[:, -1]).double()).round()
    rows = counts.nonzero().squeeze(1)
    values = table[rows, :-1].reshape(len(rows), *shape[dimensions:])
    indices = []
    for extent in reversed(shape[:dimensions]):
        indices.append(rows % extent)
        rows = rows // extent
    return torch.stack(indices[::-1]), values, int(counts.sum())


def empty_like(tensor: torch.Tensor, sparse_dimensions: int) -> torch.Tensor:
    """A sparse tensor of this shape without entries."""
    indices = torch.empty(sparse_dimensions, 0, dtype=torch.int64, device=tensor.device)
    values = torch.empty(0, *tensor.shape[sparse_dimensions:], dtype=tensor.dtype, device=tensor.device)
    return torch.sparse_coo_tensor(indices, values, tensor.shape, **_UNCHECKED)


def _packed(entries: torch.Tensor) -> torch.Tensor:
    indices, values = entries.indices().cpu(), tensors.resolved(entries.values()).cpu()
    shape = list(entries.shape)
    description = torch.tensor([len(shape), tensors.dtype_number(values, ALLREDUCE), *indices.shape, *shape])
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
    givers: Dict[str, List[int]] = {}
    for rank, part in zip(ranks, parts):
        givers.setdefault(str(part), []).append(rank)
    if len(givers) > 1:
        operation = "sparse all-reduce" if name is None else f'sparse all-reduce "{name}"'
        who_gave_what = ", ".join(f"{errors.name_ranks(who)} gave {what}" for what, who in givers.items())
        raise errors.MismatchError(f"{operation}: {who_gave_what}", lib.RUEDA_MISMATCH)

