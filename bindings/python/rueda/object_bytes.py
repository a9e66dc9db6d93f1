"""Turns objects into bytes that other ranks read, and back.

A pickle is a program: a rank that loads one runs what it says. Between hosts without TLS a machine on the way could
replace it, so only data travel there: values of Python's own types, and the shapes and dtypes of tensors. The rank that
reads them enforces this, not the rank that sends them: its unpickler knows no other class.
"""

import collections
import io
import pickle
import pickletools
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from rueda._native import lib
from rueda.errors import UnsupportedError
from rueda.session import current

PICKLE = b"\0"  # the first byte of a pickled object
_CODE = b"\1"  # the first byte of the reason that an object is more than data; other reasons begin with a letter
_DATA_CLASSES = {(known.__module__, known.__qualname__): known
                 for known in (bytearray, complex, frozenset, range, set, slice, collections.OrderedDict)}  # fmt: skip

# Find further classes that are data, by module and name, for the frameworks that are imported. They return None for
# other classes.
finders: List[Callable[[str, str], Any]] = []


class _DataUnpickler(pickle.Unpickler):
    """Loads data only. A pickle calls nothing but what find_class() returns, and what the program has registered with
    copyreg.add_extension(): _load_data() refuses those."""

    def find_class(self, module: str, name: str) -> Any:
        known = _DATA_CLASSES.get((module, name))
        for find in finders if known is None else ():
            known = known or find(module, name)
        if known is None:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return known


def _load_data(data: bytes) -> Any:
    """Raises UnpicklingError, whatever is wrong with the bytes."""
    try:
        for operation, _, _ in pickletools.genops(data):
            if operation.name.startswith("EXT"):
                raise pickle.UnpicklingError("a registered extension")
            if operation.name == "BUILD":  # of a class it would set what all objects of the class have
                raise pickle.UnpicklingError("to set attributes")
        return _DataUnpickler(io.BytesIO(data)).load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # of bytes that were changed on the way
        raise pickle.UnpicklingError(f"{type(error).__name__}: {error}") from error


def _exposed() -> str:
    """The reason that only data may travel between the ranks; empty if any pickle may. Equal on all ranks."""
    here = current()
    return here.exposed if here.local_size < here.size else ""


class _Growing:
    """A file that keeps what is written in a bytearray. The buffer of a BytesIO crashes Python 3.11 if the garbage collector
    frees it while an operation of a failed call still refers to it."""

    def __init__(self, begin: bytes):
        self.data = bytearray(begin)

    def write(self, piece: Any) -> int:
        self.data += piece
        return len(piece)


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, piece: Any) -> int:
        return memoryview(piece).nbytes

    def flush(self) -> None:
        pass


class BadEntry(NamedTuple):
    """An entry of a dict that cannot be pickled, and why."""

    key: Any
    value: Any
    why: Exception


def unpicklable_entry(entries: Dict[Any, Any], dump: Callable[[Any, Any], None] = pickle.dump) -> Optional[BadEntry]:
    """The first entry whose value dump() cannot write on its own; None if there is none."""
    for key, value in entries.items():
        try:
            dump(value, _Nowhere())
        except Exception as error:  # __reduce__ may raise anything
            return BadEntry(key, value, error)
    return None


def encode(obj: Any) -> Tuple[bytearray, Optional[Exception]]:
    """Returns the bytes for the other ranks. If the object cannot travel, the bytes hold the reason, and the error is
    returned, too."""
    buffer = _Growing(PICKLE)
    try:
        pickle.dump(obj, buffer)
    except Exception as error:  # __reduce__ may raise anything
        bad = unpicklable_entry(obj) if isinstance(obj, dict) else None
        what = f"a {type(obj).__name__} that" if bad is None else f"a {type(obj).__name__} whose {bad.key!r} is a {type(bad.value).__name__} that"
        text = f"{what} cannot be pickled: {type(error).__name__}: {error}"
        return bytearray(text.encode()), error
    if _exposed():
        try:
            _load_data(bytes(buffer.data[1:]))
        except pickle.UnpicklingError as error:
            text = f"a {type(obj).__name__} that is more than data: it needs {error}"
            return bytearray(_CODE + text.encode()), error
    return buffer.data, None


def decode(data: bytes, call: str, rank: int, failure: Optional[Exception] = None) -> Any:
    """Returns the object in the bytes of `rank`. failure: this rank's own error, if it has one.

    Raises ValueError if that rank's object could not be pickled, and UnsupportedError if it is more than data and must
    not travel.
    """
    if data[:1] == PICKLE:
        if not _exposed():
            return pickle.loads(memoryview(data)[1:])
        try:
            return _load_data(bytes(data[1:]))
        except pickle.UnpicklingError as error:
            data = _CODE + f"a pickle that needs {error}".encode()
    if data[:1] != _CODE:
        raise ValueError(f"{call}(): rank {rank} gave {bytes(data).decode(errors='replace')}") from failure
    raise UnsupportedError(f"{call}(): rank {rank} gave {bytes(data[1:]).decode(errors='replace')}; such pickles go to other hosts over TLS only, and "
                           f"{_exposed()}; RUEDA_INSECURE=1 allows them on a network that no stranger can reach",
                           lib.RUEDA_UNSUPPORTED) from failure  # fmt: skip
