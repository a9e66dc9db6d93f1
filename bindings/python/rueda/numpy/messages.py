"""Messages: an array from one rank to another, see rueda.torch.messages."""

from typing import Any, Optional

import numpy

from rueda import operations
from rueda._native import lib
from rueda.handles import Handle, enqueue
from rueda.numpy.arrays import array_of, in_place, view_of
from rueda.operations import RECV, SEND, Options, make_options
from rueda.process_sets import ProcessSet, global_process_set, id_of
from rueda.session import current


def _start(name: Any, options: Options, array: numpy.ndarray) -> Handle:
    session = current()
    address, dtype, extents = view_of(array, options.kind)
    arguments = session.pointer, operations.encode_name(name), options, (address, dtype, array.ndim), extents
    return enqueue(Handle, session, lib.rueda_py_start_message, arguments, array)


def send_async(tensor: Any, dst: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Handle:
    """Sends the array to rank `dst` of the job, a member of the set. The array may be changed once the handle's wait
    has returned. Raises ValueError if `dst` is this rank or not in the set."""
    return _start(name, make_options(SEND, id_of(process_set), rank=dst), array_of(tensor))


def send(tensor: Any, dst: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> None:
    """send_async() and its wait."""
    send_async(tensor, dst, name, process_set).wait()


def recv_async(tensor: numpy.ndarray, src: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> Handle:
    """Receives from rank `src` of the job, a member of the set, into the array, which is the handle's result."""
    return _start(name, make_options(RECV, id_of(process_set), rank=src), in_place(tensor))


def recv(tensor: numpy.ndarray, src: int, name: Optional[str] = None,
         process_set: ProcessSet = global_process_set) -> numpy.ndarray:
    """recv_async() and its result."""
    return recv_async(tensor, src, name, process_set).wait()
