"""Outputs in memory of the library, without a copy. The memory lives as long as a buffer refers to it."""

import functools
import itertools
import math
from typing import Any, Iterator, List, Sequence, Tuple

from rueda import errors
from rueda._native import ffi, lib
from rueda.handles import Handle


class _Owner:
    """A finished operation with outputs that are in use. The last buffer that refers to it releases it."""

    def __init__(self, number: int):
        self.number = number

    def __del__(self) -> None:
        lib.rueda_release(self.number)


def _let_go(owner: _Owner, memory: Any) -> None:
    """Called when no buffer refers to the memory any more. The end of this call drops a reference to `owner`."""


def outputs_of(number: int, count: int) -> Iterator[Tuple[int, Tuple[int, ...]]]:
    """The addresses and shapes of the outputs of an operation that is launched. number: of its handle."""
    address, extents = ffi.new("uintptr_t*"), ffi.new("int64_t[16]")
    for index in range(count):
        dimensions = lib.rueda_py_output(number, index, address, extents)
        if dimensions < 0:
            raise errors.last_error(-dimensions)
        yield address[0], tuple(extents[0:dimensions])


def take_outputs(handle: Handle, element_bytes: Sequence[int]) -> List[Tuple[Any, Tuple[int, ...]]]:
    """The outputs of a handle that has just succeeded, as pairs of memory and shape. For use in a handle's `finish`.

    The memory is a writeable buffer, None if the output has no elements. It may outlive the handle and the session.
    element_bytes: the size of an element, for each output.
    """
    owner = _Owner(handle.surrender())
    outputs = []
    for width, (address, shape) in zip(element_bytes, outputs_of(owner.number, len(element_bytes))):
        size = math.prod(shape) * width
        if size == 0:
            outputs.append((None, shape))
            continue
        memory = ffi.gc(ffi.cast("char*", address), functools.partial(_let_go, owner))
        outputs.append((ffi.buffer(memory, size), shape))
    return outputs


def received_splits(handle_number: int, ranks: int) -> List[int]:
    """The numbers of rows that a finished operation received from each rank of its set."""
    splits, count = ffi.new("int64_t[]", ranks), ffi.new("size_t*")
    errors.check(lib.rueda_received_splits(handle_number, splits, ranks, count))
    return list(splits[0 : count[0]])


def take_bytes(handle: Handle, ranks: int) -> List[memoryview]:
    """The bytes that each rank of the set gave to a finished all-gather, as views of the library's memory. ranks: the
    number of ranks in the set."""
    counts = received_splits(handle.number, ranks)
    whole = memoryview(take_outputs(handle, [1])[0][0] or b"")
    return [whole[end - count : end] for count, end in zip(counts, itertools.accumulate(counts))]
