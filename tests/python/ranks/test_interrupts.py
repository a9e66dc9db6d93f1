"""Ctrl-C between an enqueue and its handle: what the library has borrowed is not given to others."""

import signal

import numpy
import pytest
import torch

import rueda.numpy as arrays
import rueda.torch as hvd
from rueda import objects, operations
from rueda._native import lib
from rueda.numpy import elementwise
from rueda.numpy import messages as array_messages
from rueda.numpy import rows as array_rows
from rueda.session import current
from rueda.torch import messages, rows

SHAPE = (300, 7)


class Interrupted:
    """The library. Ctrl-C comes when it has an operation of which Python has no number yet."""

    def __getattr__(self, name):
        function = getattr(lib, name)
        if not name.startswith("rueda_py_start"):
            return function

        def start(*arguments):
            function(*arguments)
            signal.raise_signal(signal.SIGINT)

        return start


def interrupt(call, *arguments, **keywords):
    try:
        call(*arguments, **keywords)
    except KeyboardInterrupt:
        return
    raise AssertionError("no KeyboardInterrupt")


def interrupt_start(module, call, *arguments, **keywords):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "lib", Interrupted())
        interrupt(call, *arguments, **keywords)


def require_kept(address):
    """Memory that was freed would be found here again."""
    others = [numpy.empty(SHAPE) for _ in range(200)] + [torch.empty(SHAPE, dtype=torch.float64) for _ in range(200)]
    addresses = [other.ctypes.data if isinstance(other, numpy.ndarray) else other.data_ptr() for other in others]
    assert address not in addresses, "memory that the library has borrowed was given away"


@pytest.mark.parametrize("module, name", [
    (elementwise, "allreduce"), (elementwise, "allreduce_async_"), (elementwise, "broadcast_"), (operations, "grouped_allreduce_"),
    (operations, "grouped_allreduce_async"), (array_rows, "allgather"), (array_rows, "alltoall_async"), (array_rows, "reducescatter"),
    (array_rows, "reducescatter_"), (operations, "grouped_allgather"), (operations, "grouped_reducescatter"),
])  # fmt: skip
def test_an_interrupt_after_the_enqueue_of_an_array_leaves_its_memory_to_the_library(module, name):
    array = numpy.ones(SHAPE)
    address = array.ctypes.data
    given = [[array]] if name.startswith("grouped") else [array]
    interrupt_start(module, getattr(arrays, name), *given, *([0] if name == "broadcast_" else []))
    del array, given
    require_kept(address)
    arrays.barrier()


@pytest.mark.parametrize("module, name", [
    (operations, "grouped_allreduce_"), (operations, "grouped_allreduce"), (rows, "allgather_async"), (rows, "alltoall"),
    (rows, "reducescatter_async"), (rows, "reducescatter_"), (operations, "grouped_allgather_async"),
])  # fmt: skip
def test_an_interrupt_after_the_enqueue_of_a_tensor_leaves_its_memory_to_the_library(module, name):
    tensor = torch.ones(SHAPE, dtype=torch.float64)
    address = tensor.data_ptr()
    given = [tensor] if name.startswith("grouped") else tensor
    interrupt_start(module, getattr(hvd, name), given)
    del tensor, given
    require_kept(address)
    hvd.barrier()


@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_an_interrupt_after_the_enqueue_of_a_message_leaves_its_memory_to_the_library(kind):
    dialect, module = (arrays, array_messages) if kind == "array" else (hvd, messages)
    after, before = (hvd.rank() + 1) % hvd.size(), (hvd.rank() - 1) % hvd.size()
    sent = numpy.full(SHAPE, hvd.rank() + 1.0)
    sent = sent if kind == "array" else torch.from_numpy(sent.copy())
    address = sent.ctypes.data if kind == "array" else sent.data_ptr()
    interrupt_start(module, dialect.send_async, sent, after)
    del sent
    require_kept(address)
    came = dialect.recv(numpy.zeros(SHAPE) if kind == "array" else torch.zeros(SHAPE, dtype=torch.float64), before)
    assert (came == before + 1.0).all()


def test_an_interrupt_after_the_enqueue_of_an_object_leaves_its_bytes_to_the_library():
    before = len(current().kept._unknown)
    interrupt_start(objects, hvd.allgather_object, {"rank": hvd.rank()})
    assert len(current().kept._unknown) == before + 1
    hvd.barrier()


def test_what_the_library_has_refused_is_not_kept():
    before = len(current().kept._unknown)
    with pytest.raises(ValueError):
        arrays.broadcast_(numpy.ones(SHAPE), hvd.size() + 5)
    assert len(current().kept._unknown) == before
