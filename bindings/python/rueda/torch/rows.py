"""Collectives of rows: they move or reduce along dimension 0. Its extent may differ between ranks.

Functions with _async in their name return a handle for `synchronize()`. Loans and errors are those of
rueda.torch.asynchronous. Outputs on the host are memory of the library, without a copy; it is freed with the tensor.
"""

from typing import Any, Callable, List, Optional, Sequence

import torch

from rueda import names, operations
from rueda._native import ffi, lib
from rueda.arguments import splits_of
from rueda.errors import UnsupportedError
from rueda.handles import Handle, enqueue
from rueda.operations import ALLGATHER, ALLTOALL, REDUCESCATTER, Adasum, Average, Options, encode_name, make_options
from rueda.outputs import received_splits, take_outputs
from rueda.process_sets import ProcessSet, global_process_set, id_of, ranks_of
from rueda.session import current
from rueda.torch import placed, tensors
from rueda.torch.asynchronous import reduction


def _rows(tensor: torch.Tensor, options: Options) -> torch.Tensor:
    """The tensor, contiguous and in memory that the library uses, as rows: a tensor without dimensions is one row, except
    in a reduce-scatter, which raises ValueError."""
    tensors.require_strided(tensor)
    _require_reducible(options)
    source = tensors.resolved(tensors.within_reach(tensor)).contiguous()
    if source.dim() > 0:
        return source
    if options.kind == REDUCESCATTER:
        raise ValueError("shape []: a reduce-scatter deals out the rows of dimension 0, and this tensor has no dimension; "
                         "give tensor.reshape(1), or use allreduce()")  # fmt: skip
    return source.reshape(1)


def _require_reducible(options: Options) -> None:
    """Raises UnsupportedError for a reduce-scatter with Adasum, whatever the dtype is."""
    if options.kind == REDUCESCATTER and options.op == Adasum:
        raise UnsupportedError("reducescatter: op=Adasum combines whole tensors, so only an all-reduce can use it; use Average or Sum, "
                               "or allreduce(op=Adasum)", lib.RUEDA_UNSUPPORTED)  # fmt: skip


def _as_tensor(memory: Any, shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    if memory is None:
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    return torch.frombuffer(memory, dtype=like.dtype).reshape(shape).to(like.device)


def take(handle: Handle, inputs: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    """The outputs of a finished handle as tensors of the inputs' dtypes and devices."""
    place = placed.place_in(handle)
    if place is not None:
        return place.outputs.take(handle, inputs)
    taken = take_outputs(handle, [tensor.element_size() for tensor in inputs])
    return [_as_tensor(memory, shape, like) for (memory, shape), like in zip(taken, inputs)]


def start_rows(name: Optional[str], options: Options, tensor: torch.Tensor, finish: Callable[[Handle], Any],
               splits: Optional[Sequence[int]] = None) -> Handle:
    """Enqueues an operation of rows. The library makes its output, and `finish` makes the result from it."""
    session, source = current(), _rows(tensor, options)
    view, encoded = (source.data_ptr(), tensors.dtype_number(source, options.kind), source.dim()), encode_name(name)
    claimed, place = names.claim(session, encoded, options), placed.place_of(source)
    counts = ffi.NULL if splits is None else splits
    arguments = session.pointer, encoded, placed.options_at(place, options), view, source.shape, 0, ffi.NULL, counts
    return enqueue(placed.handles_at(place), session, lib.rueda_py_start_rows, arguments, source, finish, None, claimed)


def start_rows_group(name: Optional[str], options: Options, inputs: Sequence[torch.Tensor]) -> Handle:
    """Enqueues an operation of rows on several tensors as one group. The result is a list of tensors."""
    inputs = tensors.listed(inputs)
    for tensor in inputs:
        tensors.require_strided(tensor)
    session, place = current(), placed.common_place(inputs)
    sources = [_rows(tensor if place is not None else tensors.on_host(tensor), options) for tensor in inputs]
    views = [(source.data_ptr(), tensors.dtype_number(source, options.kind), source.shape) for source in sources]
    return operations.start_group(placed.handles_at(place), session, name, placed.options_at(place, options), views, [0] * len(views),
                                  sources, lambda handle: take(handle, inputs))  # fmt: skip


def allgather_async(tensor: torch.Tensor, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> Handle:
    """Concatenates the rows of all ranks, in the order of ranks, to a new tensor.

    Dimension 0 may differ between ranks; the other dimensions and the dtype must be equal. A tensor without dimensions
    is one row.
    """
    return start_rows(name, make_options(ALLGATHER, id_of(process_set)), tensor, lambda handle: take(handle, [tensor])[0])


def grouped_allgather_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                            process_set: ProcessSet = global_process_set) -> Handle:
    """allgather_async() of several tensors as one group. The result is a list of tensors."""
    return start_rows_group(name, make_options(ALLGATHER, id_of(process_set)), tensors)


def alltoall_async(tensor: torch.Tensor, splits: Any = None, name: Optional[str] = None,
                   process_set: ProcessSet = global_process_set) -> Handle:
    """Sends the next splits[r] rows to each rank r of the set. The result is the rows received, in the order of ranks.

    splits: a tensor or list with an integer for each rank, which add up to the rows of the tensor. The result then is
    the pair (output, received_splits). With None every rank gets the same number of rows, and the result is the output
    alone.
    """
    counts = None if splits is None else splits_of(splits, len(ranks_of(process_set)))
    return start_rows(name, make_options(ALLTOALL, id_of(process_set)), tensor,
                      lambda handle: exchanged(handle, tensor, process_set, splits), counts)  # fmt: skip


def exchanged(handle: Handle, tensor: torch.Tensor, process_set: ProcessSet, splits: Any) -> Any:
    """The result of an all-to-all: the output, and if splits were given the numbers of rows received from each rank."""
    if splits is None:
        return take(handle, [tensor])[0]
    received = torch.tensor(received_splits(handle.number, process_set.size()), dtype=torch.int64)
    return take(handle, [tensor])[0], received.to(splits.device) if isinstance(splits, torch.Tensor) else received


def reducescatter_async(tensor: torch.Tensor, name: Optional[str] = None, op: int = Average,
                        process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                        postscale_factor: float = 1.0) -> Handle:
    """Reduces tensors of one shape and dtype, and gives each rank a part of the rows of the result.

    Each rank gets the same number of rows; if they cannot be divided evenly, the first ranks get one more. Raises
    ValueError if the tensor has no dimension, and UnsupportedError for op=Adasum.
    """
    options = reduction(REDUCESCATTER, operations.reduce_op(None, op), process_set, prescale_factor, postscale_factor)
    return start_rows(name, options, tensor, lambda handle: take(handle, [tensor])[0])


def reducescatter_async_(tensor: torch.Tensor, name: Optional[str] = None, op: int = Average,
                         process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                         postscale_factor: float = 1.0) -> Handle:
    """reducescatter_async() in place. The result is a view of this rank's rows of the tensor; its other rows are then
    unspecified.

    Raises ValueError if the tensor is not contiguous or has no dimension, or if gradients flow through it.
    """
    tensors.require_strided(tensor)
    if tensors.in_graph(tensor):
        raise ValueError(f"gradients flow through the tensor of shape {list(tensor.shape)}, but a reduce-scatter in place is not "
                         "differentiable; use reducescatter(), or give tensor.detach()")  # fmt: skip
    if tensor.dim() == 0 or not tensor.is_contiguous():
        raise ValueError(f"shape {list(tensor.shape)} with strides {list(tensor.stride())}: a reduce-scatter in place needs at "
                         "least one dimension and contiguous memory; use reducescatter()")  # fmt: skip
    session = current()
    options = reduction(REDUCESCATTER, operations.reduce_op(None, op), process_set, prescale_factor, postscale_factor)
    _require_reducible(options)
    whole, extra = divmod(tensor.shape[0], process_set.size())
    position = process_set.rank()
    first = position * whole + min(position, extra)
    last = first + whole + (position < extra)
    memory, result = tensors.within_reach(tensor), tensor.detach()[first:last]
    own, place = memory[first:last], placed.place_of(memory)
    view, encoded = (memory.data_ptr(), tensors.dtype_number(tensor, REDUCESCATTER), tensor.dim()), encode_name(name)
    claimed = names.claim(session, encoded, options)
    arguments = session.pointer, encoded, placed.options_at(place, options), view, tensor.shape, own.data_ptr(), own.shape, ffi.NULL
    copied = place is None and not tensor.is_cpu
    handle = enqueue(placed.handles_at(place), session, lib.rueda_py_start_rows, arguments, own,
                     lambda _: result.copy_(own) if copied else result, None, claimed)  # fmt: skip
    tensors.count_change(tensor)
    return handle


def reducescatter_(tensor: torch.Tensor, name: Optional[str] = None, op: int = Average,
                   process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                   postscale_factor: float = 1.0) -> torch.Tensor:
    """reducescatter_async_() and its result."""
    return reducescatter_async_(tensor, name, op, process_set, prescale_factor, postscale_factor).wait()


def grouped_reducescatter_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None, op: int = Average,
                                process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> Handle:
    """reducescatter_async() of several tensors as one group. The result is a list of tensors."""
    options = reduction(REDUCESCATTER, operations.reduce_op(None, op), process_set, prescale_factor, postscale_factor)
    return start_rows_group(name, options, tensors)
