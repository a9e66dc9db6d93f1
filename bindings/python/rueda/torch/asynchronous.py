"""Collectives that return at once, with a handle for `synchronize()`.

They return a new tensor; those that change the tensor they are given are in rueda.torch.in_place. A tensor is lent from the
call until synchronize() has returned: do not touch it meanwhile. After a failed operation in place its contents are
unspecified. All ranks of the process set call the same operations with the same names, in any order; operations without
a name are matched by their kind and order. All raise, with nothing enqueued:

    ValueError: a dtype, operator, root, name or process set that is not valid; a name already in flight; a tensor whose
        memory is not dense, for an operation in place.
    HorovodInternalError: no session, or one that has ended.

and synchronize() raises what becomes of it later: HorovodInternalError where ranks disagree, a rank died or left.
"""

from typing import Any, List, Optional, Sequence

import torch

from rueda import operations
from rueda._native import lib
from rueda.handles import Handle
from rueda.operations import ALLREDUCE, BROADCAST, Options, encode_name
from rueda.process_sets import ProcessSet, global_process_set, id_of
from rueda.session import Session, current
from rueda.torch import tensors

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
            return _start_through_host(session, name, options, tensor)
    address = tensor.data_ptr()
    number = _start(session.pointer, name, options, (address, dtype, len(extents)), extents, address)
    return Handle(session, number, tensor, None, tensors.memory_of(tensor))


def _start_through_host(session: Session, name: Any, options: Options, tensor: torch.Tensor) -> Handle:
    """start_in_place() for a tensor on a device that the library does not reach: through a copy on the host."""
    copy = tensors.on_host(tensor)
    handle = start_in_place(session, name, options, copy)
    handle.then(lambda _: tensor.detach().copy_(copy))
    return handle


def start_new(session: Session, name: Optional[str], options: Options, tensor: torch.Tensor) -> Handle:
    """Enqueues an operation with a new tensor of the shape of `tensor` as its result."""
    tensors.require_strided(tensor)
    source, extents = tensors.dense(tensors.on_host(tensor))
    output = torch.empty_like(source)
    view = source.data_ptr(), tensors.dtype_number(source, options.kind), len(extents)
    number = _start(session.pointer, encode_name(name), options, view, extents, output.data_ptr())
    device = tensor.device
    return Handle(session, number, (source, output), lambda handle: output.to(device))


def start_group(name: Optional[str], options: Options, inputs: Sequence[torch.Tensor], replace: bool) -> Handle:
    """Enqueues a group. If `replace` is set it changes the inputs, else the results are new tensors."""
    session = current()
    sources: List[torch.Tensor] = []
    views, results = [], []
    inputs = tensors.listed(inputs)
    for tensor in inputs:
        tensors.require_strided(tensor)
        if replace:
            extents, source = tensors.in_place(tensor), tensors.on_host(tensor)
        else:
            source, extents = tensors.dense(tensors.on_host(tensor))
        sources.append(source)
        results.append(source if replace else torch.empty_like(source))
        views.append((source.data_ptr(), tensors.dtype_number(source, options.kind), extents))
    addresses = [result.data_ptr() for result in results]
    number = operations.start_group(session, name, options, views, addresses)

    def finish(handle: Handle) -> List[torch.Tensor]:
        if not replace:
            return [result.to(tensor.device) for result, tensor in zip(results, inputs)]
        return [tensor if tensor.is_cpu else tensor.detach().copy_(result) for tensor, result in zip(inputs, results)]

    return Handle(session, number, (sources, results, inputs), finish)


def reduction(kind: int, op: int, process_set: ProcessSet, prescale: float, postscale: float) -> Options:
    """The options of a reduction without a codec."""
    return Options(kind, id_of(process_set), op, prescale=prescale, postscale=postscale)


def allreduce_async(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                    op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set) -> Handle:
    """Reduces tensors of one shape and dtype, element by element; every rank gets the same bits, in a new tensor.

    op: Average (the default), Sum, Min, Max or Product. prescale_factor multiplies the input, postscale_factor the sum.
    """
    options = reduction(ALLREDUCE, operations.reduce_op(average, op), process_set, prescale_factor, postscale_factor)
    return start_new(current(), name, options, tensor)


def grouped_allreduce_async(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                            op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> Handle:
    """allreduce_async() of several tensors as one group, accepted whole or not at all; the result is a list."""
    options = reduction(ALLREDUCE, operations.reduce_op(average, op), process_set, prescale_factor, postscale_factor)
    return start_group(name, options, tensors, False)


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> Handle:
    """Copies the tensor of `root_rank`, a rank of the job also within a process set, to a new tensor on every rank. All
    ranks give a tensor of the root's shape and dtype."""
    return start_new(current(), name, Options(BROADCAST, id_of(process_set), rank=operations.root_of(root_rank)), tensor)


def barrier_async(process_set: ProcessSet = global_process_set) -> Handle:
    """Finishes after all ranks have called it and what was agreed before it has run. Its result is None."""
    session = current()
    return Handle(session, lib.rueda_py_start_barrier(session.pointer, id_of(process_set)), None)


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until all ranks of the set are here."""
    barrier_async(process_set).wait()


def join_async(device: int = -1, process_set: ProcessSet = global_process_set) -> Handle:
    """This rank has no more to give: until all ranks of the set have joined, it takes part in the others' operations there
    with nothing. Sums and averages count it as nothing (an average still divides by all ranks), minimum, maximum and product
    ignore it; what has no such contribution, as a broadcast, raises HorovodInternalError on the others. Until the join ends,
    whatever this rank submits in the set is refused (ValueError).

    The result is the rank, of the job, that joined last. RUEDA_TIMEOUT_SECONDS does not limit it. device: accepted, without
    meaning.
    """
    del device
    return operations.start_join(current(), id_of(process_set))


def join(device: int = -1, process_set: ProcessSet = global_process_set) -> int:
    """join_async(), and waits until all ranks of the set have joined. Returns the rank that was the last."""
    return join_async(device, process_set).wait()


def poll(handle: Handle) -> bool:
    """Whether the operation has finished; synchronize() then does not block."""
    return _handle(handle).poll()


def synchronize(handle: Handle, timeout: Optional[float] = None) -> Any:
    """Waits until the operation has finished and returns its result.

    timeout: seconds. TimeoutError with poll(handle) False: they passed, the operation is in flight; wait again.
    """
    return _handle(handle).wait(timeout)


def _handle(handle: Any) -> Handle:
    if not isinstance(handle, Handle):
        raise ValueError(f"{handle!r:.60} is no handle, which a function whose name has _async in it returns")
    return handle
