"""Collectives that return at once, with a handle for `synchronize()`. Their result is a new tensor; see in_place.py for
the others.

Loans: a tensor is lent from the call until synchronize() has returned. Do not read or write it meanwhile. After an
operation in place that failed, its contents are unspecified.

Matching: all ranks of the process set call the same operations with the same names, in any order. Operations without a
name are matched by their kind and order.

Errors: a call raises ValueError, and enqueues nothing, if a dtype, operator, root, name or process set is not valid, if
this rank has begun an operation of the name and seen none end since (rueda/names.py), or if an operation in place gets
a tensor with gaps in its memory. It raises HorovodInternalError if there is no session, or if it has ended.
synchronize() raises HorovodInternalError if ranks disagree, or if a rank has died or left.

Threads: any thread may call, and any thread may wait for a handle.
"""

from typing import Any, List, Optional, Sequence

import torch

from rueda import names, operations, waits
from rueda._native import lib
from rueda.handles import Handle
from rueda.operations import ALLREDUCE, BROADCAST, CODEC_NONE, Options, encode_name, make_options, shared_options
from rueda.process_sets import ProcessSet, global_process_set, id_of
from rueda.session import Session, current
from rueda.torch import placed, tensors
from rueda.waits import barrier as barrier
from rueda.waits import barrier_async as barrier_async
from rueda.waits import poll as poll
from rueda.waits import synchronize as synchronize

_start = lib.rueda_py_start
_DTYPES = tensors.DTYPES


def start_in_place(session: Session, name: Any, options: Options, tensor: torch.Tensor) -> Handle:
    """Enqueues an operation that changes `tensor`, which is the handle's result. name: as encode_name() returns it."""
    dtype = _DTYPES.get(tensor.dtype)
    plain = dtype is not None and tensor.is_cpu and not tensor.is_sparse and tensor.is_contiguous()
    if plain and not tensor.is_conj() and not tensor.is_neg():
        extents = tensor.shape
    else:
        extents, dtype = tensors.in_place(tensor), tensors.dtype_number(tensor, options.kind)
        if not tensor.is_cpu:
            return _start_on_device(session, name, options, tensor, dtype, extents)
    address, claimed, memory, number = tensor.data_ptr(), names.claim(session, name, options), tensors.memory_of(tensor), None
    try:
        number = _start(session.pointer, name, options, (address, dtype, len(extents)), extents, address)
        return Handle(session, number, tensor, None, memory, claimed)
    except BaseException:
        session.kept.keep_unless_refused(number, memory)
        raise


def _start_on_device(session: Session, name: Any, options: Options, tensor: torch.Tensor, dtype: int, extents: Sequence[int]) -> Handle:
    """start_in_place() for a tensor on a device: through a copy on the host if the library does not reach the device."""
    place = placed.place_of(tensor)
    if place is None:
        copy = tensors.on_host(tensor)
        handle = start_in_place(session, name, options, copy)
        handle.then(lambda _: tensor.detach().copy_(copy))
        return handle
    address, claimed, memory, number = tensor.data_ptr(), names.claim(session, name, options), tensors.memory_of(tensor), None
    try:
        number = _start(session.pointer, name, placed.options_at(place, options), (address, dtype, len(extents)), extents, address)
        return placed.handle_of(place, session, number, tensor, None, memory, claimed)
    except BaseException:
        session.kept.keep_unless_refused(number, (memory, place))
        raise


def start_new(session: Session, name: Optional[str], options: Options, tensor: torch.Tensor) -> Handle:
    """Enqueues an operation with a new tensor of the shape of `tensor` as its result."""
    tensors.require_strided(tensor)
    source, extents = tensors.dense(tensors.within_reach(tensor))
    output, place = torch.empty_like(source), placed.place_of(source)
    view, encoded = (source.data_ptr(), tensors.dtype_number(source, options.kind), len(extents)), encode_name(name)
    claimed, device, number = names.claim(session, encoded, options), tensor.device, None
    try:
        number = _start(session.pointer, encoded, placed.options_at(place, options), view, extents, output.data_ptr())
        return placed.handle_of(place, session, number, (source, output), lambda handle: output.to(device), None, claimed)
    except BaseException:
        session.kept.keep_unless_refused(number, (source, output, place))
        raise


def start_group(name: Optional[str], options: Options, inputs: Sequence[torch.Tensor], replace: bool) -> Handle:
    """Enqueues a group. If `replace` is set it changes the inputs, else the results are new tensors."""
    session = current()
    sources: List[torch.Tensor] = []
    views, results = [], []
    inputs = tensors.listed(inputs)
    for tensor in inputs:
        tensors.require_strided(tensor)
    place = placed.common_place(inputs)
    reached = tensors.on_host if place is None else torch.Tensor.detach
    for tensor in inputs:
        if replace:
            extents, source = tensors.in_place(tensor), reached(tensor)
        else:
            source, extents = tensors.dense(reached(tensor))
        sources.append(source)
        results.append(source if replace else torch.empty_like(source))
        views.append((source.data_ptr(), tensors.dtype_number(source, options.kind), extents))
    addresses = [result.data_ptr() for result in results]

    def finish(handle: Handle) -> List[torch.Tensor]:
        if not replace:
            return [result.to(tensor.device) for result, tensor in zip(results, inputs)]
        copied = place is None and not all(tensor.is_cpu for tensor in inputs)
        return [tensor.detach().copy_(result) for tensor, result in zip(inputs, results)] if copied else list(inputs)

    return operations.start_group(placed.handles_at(place), session, name, placed.options_at(place, options), views, addresses,
                                  (sources, results, inputs), finish)  # fmt: skip


def reduction(kind: int, op: int, process_set: ProcessSet, prescale: float, postscale: float) -> Options:
    """The options of a reduction without a codec."""
    if prescale == 1.0 == postscale:
        return shared_options(kind, id_of(process_set), op, 0, CODEC_NONE)
    return make_options(kind, id_of(process_set), op, 0, CODEC_NONE, prescale, postscale)


def allreduce_async(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                    op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set) -> Handle:
    """Reduces tensors of one shape and dtype element by element. The result is a new tensor with the same bits on every
    rank.

    op: Average (the default), Sum, Min, Max, Product, Adasum, BitAnd, BitOr or BitXor. prescale_factor multiplies the
    input, postscale_factor the result. average: deprecated, use op.
    """
    options = reduction(ALLREDUCE, operations.reduce_op(average, op), process_set, prescale_factor, postscale_factor)
    return start_new(current(), name, options, tensor)


def grouped_allreduce_async(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                            op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> Handle:
    """allreduce_async() of several tensors as one group, which is enqueued whole or not at all. The result is a list of
    tensors."""
    options = reduction(ALLREDUCE, operations.reduce_op(average, op), process_set, prescale_factor, postscale_factor)
    return start_group(name, options, tensors, False)


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> Handle:
    """Copies the root's tensor to a new tensor on every rank. All ranks give a tensor of the root's shape and dtype.

    root_rank: a rank of the job, even within a process set.
    """
    return start_new(current(), name, make_options(BROADCAST, id_of(process_set), rank=operations.root_of(root_rank)), tensor)


def join_async(device: int = -1, process_set: ProcessSet = global_process_set) -> Handle:
    """rueda.waits.join_async() with the arguments of Horovod. device: ignored."""
    del device
    return waits.join_async(process_set)


def join(device: int = -1, process_set: ProcessSet = global_process_set) -> int:
    """join_async() and its result: blocks until all ranks of the set have joined, and returns the rank that joined
    last."""
    return join_async(device, process_set).wait()
