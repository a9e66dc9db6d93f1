"""Sums and averages of sparse tensors, by one all-gather of bytes. Each rank gives a description, its indices and its
values:

    | count of dimensions | dtype | sparse dimensions | entries | extents ... | indices ... | values ... | padding |

All but the values are 64-bit integers, and the padding goes to 8 bytes. If the ranks had so many entries in the last reduction that an all-reduce of the
whole tensor moves fewer bytes, the tensor is reduced as a dense one, with one more column that counts the ranks that
have an entry. The idea of switching representation by size is that of SparCML (Renggli et al., SC 2019).
"""

import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from rueda import errors, names, operations
from rueda._native import lib
from rueda.handles import Handle
from rueda.operations import ALLGATHER, ALLREDUCE, Average, make_options
from rueda.outputs import take_bytes
from rueda.process_sets import ProcessSet, global_process_set, id_of, ranks_of
from rueda.session import Session, current
from rueda.torch import tensors
from rueda.torch.asynchronous import start_in_place
from rueda.torch.rows import start_rows

_WORD = 8
_HALVES = (torch.float16, torch.bfloat16)


# Given explicitly, since PyTorch warns if it is not. Before 2.0 the parameter does not exist.
_UNCHECKED = {"check_invariants": False} if hasattr(torch.sparse, "check_sparse_tensor_invariants") else {}


class History:
    """The number of entries in the last reduction of one tensor, from which all ranks choose the form of the next one.

    All ranks must choose alike, so all of them store the same number. A rank that had joined missed reductions; so a
    history is valid only until the next join. One thread at a time uses it.
    """

    def __init__(self) -> None:
        self.dimensions = 0  # the number of sparse dimensions, 0 if unknown
        self._entries = 0  # of all ranks together
        self._joins = -1

    def goes_dense(self, tensor: torch.Tensor, session: Session, process_set: int) -> bool:
        """Returns whether an all-reduce of the whole tensor, which sends it about twice, moves fewer bytes than the
        entries would."""
        # In other dtypes the count of ranks would not be exact.
        real = tensor.is_floating_point() or tensor.is_complex()
        if self._joins != session.joins[process_set] or not real:
            return False
        rows = math.prod(tensor.shape[: tensor.sparse_dim()])
        row_bytes = math.prod(tensor.shape[tensor.sparse_dim() :]) * tensor.element_size()
        return self._entries * (_WORD * tensor.sparse_dim() + row_bytes) > 2 * rows * (row_bytes + tensor.element_size())

    def forget(self) -> None:
        """Makes the next reduction send entries."""
        self._joins = -1

    def note(self, entries: int, session: Session, process_set: int) -> None:
        """Stores the number of entries of all ranks in a reduction."""
        self._entries, self._joins = entries, session.joins[process_set]


class _Named:
    """The reductions of one name: their history, and the last one until its result is made. A rank must make that
    result before it begins the next reduction, since the result updates the history by which ranks choose."""

    def __init__(self) -> None:
        self.history = History()
        self._last: Optional[Handle] = None

    def settle(self) -> None:
        """Makes the result of the last reduction if it has ended. If not, its name is in flight, and the next one is
        refused."""
        if self._last is None or not self._last.poll():
            return
        try:
            self._last.wait()
        except Exception:  # the thread that waits for the handle gets it
            self.history.forget()
        self._last = None

    def begun(self, handle: Handle) -> None:
        """Stores a reduction that was just enqueued."""

        def made(_: Handle, result: torch.Tensor) -> torch.Tensor:
            self._last = None
            return result

        self._last = handle
        handle.also(made)


def sparse_allreduce_async(tensor: torch.Tensor, name: Optional[str], op: int = Average,
                           process_set: ProcessSet = global_process_set) -> Callable[[], torch.Tensor]:
    """Adds up sparse tensors of one shape and dtype. Ranks may have any numbers of entries, or none. op: Average or
    Sum.

    Gathers the entries of all ranks; or all-reduces a dense table if that moves fewer bytes, judged by the last
    reduction of this name. Returns a function that blocks and returns the reduced sparse tensor. It raises
    MismatchError, with the same sentence on all ranks, if shapes, dtypes or numbers of sparse dimensions differ.
    """
    if name is None:
        return start_sparse(tensor, None, op, process_set, History()).wait
    # First: settle() sees an operation end.
    names.claim(current(), operations.encode_name(name), make_options(ALLGATHER, id_of(process_set)))
    known = current().sparse.setdefault((id_of(process_set), name), _Named())
    known.settle()
    handle = start_sparse(tensor, name, op, process_set, known.history)
    known.begun(handle)
    return handle.wait


def start_sparse(tensor: torch.Tensor, name: Optional[str], op: int, process_set: ProcessSet, history: History) -> Handle:
    """sparse_allreduce_async() with a handle, which has the reduced tensor as its result. history: of this tensor."""
    if op not in (Average, operations.Sum):
        raise ValueError("a sparse tensor can be reduced only with op=Average or op=Sum")
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
        parts = [_Part(piece) for piece in take_bytes(handle, process_set.size())]
        _require_equal(name, ranks, parts)
        indices = torch.cat([part.indices for part in parts], dim=1)
        history.note(indices.shape[1], session, number_of_set)
        values = torch.cat([part.values for part in parts])
        return _reduced(indices, values, divisor, parts[0].shape, tensor.device)

    if history.goes_dense(tensor, session, number_of_set):
        table = _table(entries)
        handle = start_in_place(session, operations.encode_name(name), make_options(ALLREDUCE, number_of_set, op), table)
        handle.then(finish_dense)
        return handle
    return start_rows(name, make_options(ALLGATHER, number_of_set), _packed(entries), finish)


def _reduced(indices: torch.Tensor, values: torch.Tensor, divisor: int, shape: Sequence[int], device: Any) -> torch.Tensor:
    """The sum or average of entries, rounded once at the end as in a dense all-reduce. Integers are averaged towards
    zero."""
    dtype = values.dtype
    whole = not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)
    wide = torch.float32 if dtype in _HALVES else torch.int64 if whole and divisor > 1 else dtype
    summed = torch.sparse_coo_tensor(indices, values.to(wide), shape, **_UNCHECKED).coalesce()
    if divisor > 1:
        mean = torch.div(summed.values(), divisor, rounding_mode="trunc") if whole else summed.values() / divisor
        summed = torch.sparse_coo_tensor(summed.indices(), mean, shape, **_UNCHECKED)
    return summed.to(device=device, dtype=dtype).coalesce()


def _table(entries: torch.Tensor) -> torch.Tensor:
    """The entries as rows of a dense tensor on the host, with a 1 in one more column of each."""
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
    """The indices and values of the rows that some rank had, and the number of entries of all ranks together."""
    counts = (divisor * (table[:, -1].real if table.is_complex() else table[:, -1]).double()).round()
    rows = counts.nonzero().squeeze(1)
    values = table[rows, :-1].reshape(len(rows), *shape[dimensions:])
    indices = []
    for extent in reversed(shape[:dimensions]):
        indices.append(rows % extent)
        rows = rows // extent
    return torch.stack(indices[::-1]), values, int(counts.sum())


def empty_like(tensor: torch.Tensor, sparse_dimensions: int) -> torch.Tensor:
    """A sparse tensor without entries, with the shape, dtype and device of `tensor`."""
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
    """The entries of one rank, as views of the gathered bytes."""

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
        gifts = ", ".join(f"{errors.name_ranks(of)} gave {what}" for what, of in givers.items())
        raise errors.MismatchError(f"{operation}: {gifts}", lib.RUEDA_MISMATCH)

