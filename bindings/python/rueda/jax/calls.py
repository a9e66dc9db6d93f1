"""One call of the compiled part, inside a program or at once.

A call outside of every transformation runs at once and blocks until its result is there. Its errors are Rueda's
exceptions. In a program, the error surfaces where the program's results are used, as JAX's own exception; error_of()
turns that into Rueda's.
"""

import re
from typing import Any, List, NamedTuple, Optional, Sequence

import jax
import jax.numpy as jnp
import numpy

from rueda import errors
from rueda._native import ffi, lib
from rueda.jax import bridge, names, versions
from rueda.process_sets import ProcessSet, id_of
from rueda.session import current

ALLREDUCE, BROADCAST, ALLGATHER, ALLTOALL, REDUCESCATTER = range(5)
_KINDS = ("allreduce", "broadcast", "allgather", "alltoall", "reducescatter")

_DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64",
    "complex64", "complex128",
)  # fmt: skip
_MOST_DIMENSIONS = 16


class Kind(NamedTuple):
    """An operation but for its tensors and names."""

    kind: int
    process_set: ProcessSet
    op: int = 0
    root: int = 0
    prescale: float = 1.0
    postscale: float = 1.0
    splits: str = ""


def array_of(value: Any) -> Any:
    """The value as an array of JAX. Raises ValueError if Rueda cannot take it."""
    if isinstance(value, (list, tuple, dict)):
        raise ValueError(f"give an array, not a {type(value).__name__}; grouped_allreduce() and the functions of trees take several")
    try:
        array = value if isinstance(value, jax.Array) else jnp.asarray(value)
    except TypeError as error:
        raise ValueError(f"a {type(value).__name__} is not an array: {error}") from None
    if str(array.dtype) not in _DTYPES:
        raise ValueError(f"dtype {array.dtype} is not supported; {', '.join(_DTYPES)} are")
    if not all(isinstance(extent, int) for extent in array.shape):
        raise ValueError(f"shape {array.shape} is not known at trace time; give an array with a static shape")
    if array.ndim > _MOST_DIMENSIONS:
        raise ValueError(f"shape {array.shape} has {array.ndim} dimensions; at most {_MOST_DIMENSIONS} are supported")
    return array


def is_traced(arrays: Sequence[Any]) -> bool:
    """Returns whether a transformation of JAX is under way, or one of the arrays belongs to one."""
    return not versions.is_top_level() or any(isinstance(array, jax.core.Tracer) for array in arrays)


def prepare(kind: Kind, values: Sequence[Any], given: Optional[Sequence[Any]]) -> "tuple[List[Any], List[str], bool]":
    """The arrays of an operation, their names, and whether the call is traced. Raises ValueError for wrong arguments,
    and NotInitializedError without a session."""
    session = current()
    id_of(kind.process_set)
    arrays = [array_of(value) for value in values]
    traced = is_traced(arrays)
    if not traced:
        session.require_part()  # in a program the compiled part refuses
    for array in arrays:
        if not traced and any(device.platform != "cpu" for device in array.devices()):
            raise ValueError(f"an array of shape {array.shape} is on {next(iter(array.devices()))}; rueda.jax runs operations on the CPU: "
                             "jax.device_put(x, jax.devices('cpu')[0])")  # fmt: skip
    return arrays, names.reserve(_KINDS[kind.kind], given, arrays, traced), traced


def start(kind: Kind, arrays: Sequence[Any], given: Sequence[str], shapes: Optional[Sequence[Sequence[int]]] = None) -> List[Any]:
    """Calls the compiled part. shapes: those of the results, by default those of the arrays."""
    bridge.note_devices()
    outputs = [jax.ShapeDtypeStruct(array.shape if shapes is None else shapes[i], array.dtype) for i, array in enumerate(arrays)]
    number = id_of(kind.process_set)
    attributes = {
        "kind": numpy.int64(kind.kind), "op": numpy.int64(kind.op), "root": numpy.int64(kind.root),
        "process_set": numpy.int64(number), "epoch": numpy.int64(bridge.epoch() if number else 0),
        "prescale": numpy.float64(kind.prescale), "postscale": numpy.float64(kind.postscale),
        "names": "\n".join(given), "splits": kind.splits,
    }  # fmt: skip
    elementwise = kind.kind in (ALLREDUCE, BROADCAST)
    return list(versions.call(bridge.TARGET, outputs, elementwise)(*arrays, **attributes))


def finish(results: Any) -> Any:
    """Waits for results, and raises Rueda's exception if an operation has failed."""
    try:
        return jax.block_until_ready(results)
    except (RuntimeError, ValueError) as error:
        raise error_of(error) or error from None


def run(kind: Kind, arrays: Sequence[Any], given: Sequence[str], traced: bool,
        shapes: Optional[Sequence[Sequence[int]]] = None) -> List[Any]:
    """start(), and outside of a program finish()."""
    if traced:
        return start(kind, arrays, given, shapes)
    try:
        return finish(start(kind, arrays, given, shapes))
    except (RuntimeError, ValueError) as error:
        raise error_of(error) or error from None


_OURS = re.compile(r"rueda: (.*) \[([A-Z_]+)\]", re.S)  # as bindings/jax/deliver.c makes it


def error_of(error: BaseException) -> Optional[Exception]:
    """Rueda's exception for an error that a program of JAX has raised; None if Rueda did not cause it.

    try:
        jax.block_until_ready(step(parameters))
    except jax.errors.JaxRuntimeError as error:
        raise hvd.error_of(error) or error
    """
    if isinstance(error, errors.CollectiveError):
        return error
    found = _OURS.search(str(error))
    if found is None:
        return error if type(error) is ValueError else None
    for code in range(1, 16):
        if ffi.string(lib.rueda_error_name(code)).decode() == found[2]:
            return errors.error_of(code, found[1] + _remedy(found[1]))
    return None


def _remedy(sentence: str) -> str:
    """What to do, behind a sentence of the library's that cannot know how Python gives the shape of a result."""
    differs = sentence.startswith("allgather ") and "the given output has shape" in sentence
    return "; if ranks give different numbers of rows, tell every rank all of them: rows=[...]" if differs else ""
