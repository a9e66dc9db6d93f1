"""Messages: a tensor from one rank to another. No other rank takes part.

A send meets the receive of the same name between the two ranks. Messages of one name, or without a name, keep their
order. Names are shared by all process sets. Both sides give tensors of one shape and dtype, else both raise
HorovodInternalError. Loans and errors are those of rueda.torch.asynchronous.
"""

from typing import Any, Optional

import torch

from rueda import operations
from rueda._native import lib
from rueda.handles import Handle, enqueue
from rueda.operations import RECV, SEND, Options, make_options
from rueda.process_sets import ProcessSet, global_process_set, id_of
from rueda.session import Session, current
from rueda.torch import placed, tensors


def start_message(session: Session, name: Any, options: Options, tensor: torch.Tensor) -> Handle:
    """Enqueues a send of, or a receive into, a dense tensor in memory that the library uses. name: as encode_name()
    returns it."""
    extents, place = tensors.in_place(tensor), placed.place_of(tensor)
    view = tensor.data_ptr(), tensors.dtype_number(tensor), len(extents)
    arguments = session.pointer, name, placed.options_at(place, options), view, extents
    return enqueue(placed.handles_at(place), session, lib.rueda_py_start_message, arguments, tensor)


def send_async(tensor: torch.Tensor, dst: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> Handle:
    """Sends the tensor to rank `dst` of the job, a member of the set. The handle's result is the tensor.

    The tensor may be changed once the handle's wait has returned. Raises ValueError if `dst` is this rank or not in the
    set.
    """
    source, _ = tensors.dense(tensors.within_reach(tensor))
    handle = start_message(current(), operations.encode_name(name), make_options(SEND, id_of(process_set), rank=dst), source)
    handle.then(lambda _: tensor)
    return handle


def send(tensor: torch.Tensor, dst: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> None:
    """send_async() and its wait. Returns once the tensor may be changed."""
    send_async(tensor, dst, name, process_set).wait()


def recv_async(tensor: torch.Tensor, src: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> Handle:
    """Receives from rank `src` of the job, a member of the set, into the tensor, which is the handle's result.

    Raises ValueError if `src` is this rank or not in the set, or if the tensor's memory is not dense.
    """
    tensors.in_place(tensor)
    memory = tensors.within_reach(tensor)
    handle = start_message(current(), operations.encode_name(name), make_options(RECV, id_of(process_set), rank=src), memory)
    tensors.count_change(tensor)
    handle.then(lambda _: tensor if placed.is_reached(tensor) else tensor.detach().copy_(memory))
    return handle


def recv(tensor: torch.Tensor, src: int, name: Optional[str] = None,
         process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """recv_async() and its result."""
    return recv_async(tensor, src, name, process_set).wait()
