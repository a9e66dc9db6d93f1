"""Sends objects of Python between ranks, for every framework. Both functions block."""

from typing import Any, List, Optional

from rueda._native import ffi, lib
from rueda.handles import Handle, enqueue
from rueda.object_bytes import decode, encode
from rueda.operations import ALLGATHER, BROADCAST, encode_name, make_options, root_of
from rueda.outputs import take_bytes
from rueda.process_sets import ProcessSet, global_process_set, id_of, ranks_of
from rueda.session import current


def _broadcast_bytes(data: bytearray, root_rank: int, name: str, process_set: ProcessSet) -> None:
    """Overwrites the bytes on every rank with the root's."""
    session, memory = current(), ffi.from_buffer(data)
    address = int(ffi.cast("uintptr_t", memory))
    options = make_options(BROADCAST, id_of(process_set), rank=root_rank)
    arguments = session.pointer, encode_name(name), options, (address, lib.RUEDA_U8, 1), [len(data)], address
    enqueue(Handle, session, lib.rueda_py_start, arguments, memory).wait()


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """Returns the root's object on every rank; the root gets its own back. obj: any object that can be pickled.

    Only ranks that have proved the job's key can send the pickle that this function loads. In a job of several hosts
    without RUEDA_TLS=all an object is data only: None, numbers, strings, bytes, and lists, tuples, dicts and sets of
    them.

    Raises ValueError, on all ranks, if the root's object cannot be pickled, and UnsupportedError, on all ranks, if it is
    more than data in such a job.
    """
    root_rank = root_of(root_rank)
    name = name or current().next_call_space("broadcast_object", ranks_of(process_set)) + "object"
    is_root = current().rank == root_rank
    data, failure = encode(obj) if is_root else (bytearray(), None)
    length = bytearray(len(data).to_bytes(8, "little"))
    _broadcast_bytes(length, root_rank, name + ".bytes", process_set)
    if not is_root:
        data = bytearray(int.from_bytes(length, "little"))
    _broadcast_bytes(data, root_rank, name, process_set)
    return obj if is_root and failure is None else decode(data, "broadcast_object", root_rank, failure)


def allgather_object(obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Any]:
    """Returns a list of every rank's object, in the order of ranks. obj: as in broadcast_object().

    Raises ValueError, on all ranks, if one of them cannot be pickled, and UnsupportedError as broadcast_object() does.
    """
    name = name or current().next_call_space("allgather_object", ranks_of(process_set)) + "object"
    data, failure = encode(obj)
    session, source = current(), ffi.from_buffer(data)
    view = int(ffi.cast("uintptr_t", source)), lib.RUEDA_U8, 1
    options = make_options(ALLGATHER, id_of(process_set))
    arguments = session.pointer, encode_name(name), options, view, [len(data)], 0, ffi.NULL, ffi.NULL
    handle = enqueue(Handle, session, lib.rueda_py_start_rows, arguments, source, lambda ended: take_bytes(ended, len(ranks_of(process_set))))
    pieces = handle.wait()
    return [decode(piece, "allgather_object", rank, failure) for rank, piece in zip(ranks_of(process_set), pieces)]
