"""All-reduce and reduce-scatter.

Gradients are those of the sum of all ranks' losses. All-reduce by Sum, Average, Min, Max and Product is differentiable;
ranks that share a minimum or maximum share its gradient. Reduce-scatter by Sum and Average is differentiable.
"""

from typing import Any, List, Optional, Sequence

import jax
import jax.numpy as jnp
import numpy

from rueda import operations
from rueda.jax import calls
from rueda.jax.calls import ALLGATHER, ALLREDUCE, REDUCESCATTER, Kind
from rueda.jax.compression import Compression, compressed, decompressed
from rueda.operations import Average, Max, Min, Product, Sum
from rueda.process_sets import ProcessSet, global_process_set, ranks_of


def _is_inexact(array: Any) -> bool:
    return jnp.issubdtype(array.dtype, jnp.inexact)


def with_gradient(forward: Any, backward: Any, arrays: Sequence[Any]) -> List[Any]:
    """Calls forward(arrays) with backward(inputs, results, cotangents) as its derivative.

    Each function gets lists. `backward` sees only the arrays with numbers that have derivatives.
    """
    real = [index for index, array in enumerate(arrays) if _is_inexact(array)]
    if not real:
        return forward([jax.lax.stop_gradient(array) for array in arrays])

    @jax.custom_vjp
    def call(inputs: List[Any]) -> List[Any]:
        return forward(inputs)

    def rule(inputs: List[Any]) -> Any:
        results = forward(inputs)
        return results, (inputs, results)

    def transposed(kept: Any, cotangents: List[Any]) -> Any:
        inputs, results = kept
        gradients: List[Any] = [numpy.zeros(array.shape, jax.dtypes.float0) for array in inputs]
        pick = lambda values: [values[index] for index in real]  # noqa: E731
        for index, gradient in zip(real, backward(pick(inputs), pick(results), pick(cotangents), real)):
            gradients[index] = gradient
        return (gradients,)

    call.defvjp(rule, transposed)
    return call(list(arrays))


def _share(x: Any, y: Any, total: Any, sum_of: Any) -> Any:
    """The gradient of a minimum or maximum: the sum of the cotangents, divided among the ranks that have the value."""
    has_it = (x == y).astype(x.dtype)
    return jnp.where(x == y, total / sum_of([has_it], ".ties")[0], jnp.zeros_like(x))


def _others(x: Any, y: Any, reduce: Any) -> Any:
    """The product of the other ranks' elements, with zeros among them."""
    is_zero = x == 0
    zeros = reduce([is_zero.astype(jnp.float32)], ".zeros", Sum)[0]
    product = reduce([jnp.where(is_zero, jnp.ones_like(x), x)], ".rest", Product)[0]
    alone = jnp.where(zeros == 1, product, jnp.zeros_like(x))
    return jnp.where(is_zero, alone, jnp.where(zeros == 0, product / jnp.where(is_zero, jnp.ones_like(x), x), jnp.zeros_like(x)))


def _allreduce_gradient(kind: Kind, given: Sequence[str]) -> Any:
    def backward(inputs: List[Any], results: List[Any], cotangents: List[Any], real: Sequence[int]) -> List[Any]:
        names = [given[index] + ".grad" for index in real]

        def reduce(arrays: List[Any], suffix: str, op: int, which: Sequence[str] = ()) -> List[Any]:
            wanted = [name + suffix for name in (which or names)]
            return _allreduce(kind._replace(op=op), arrays, wanted, True)

        if kind.op in (Sum, Average):
            return reduce(cotangents, "", kind.op)
        if kind.op not in (Min, Max, Product):
            raise NotImplementedError(f"{given[0]}: an all-reduce with op={kind.op} has no gradient; Sum, Average, Min, Max and Product have")
        if any(jnp.issubdtype(array.dtype, jnp.complexfloating) for array in inputs):
            raise NotImplementedError(f"{given[0]}: the product of complex numbers has no gradient here; use Sum or Average")
        totals = reduce(cotangents, "", Sum)
        gradients = []
        for x, y, total, name in zip(inputs, results, totals, names):
            one = lambda arrays, suffix, op=Sum, name=name: reduce(arrays, suffix, op, [name])  # noqa: E731
            gradients.append(total * _others(x, y, one) if kind.op == Product else _share(x, y, total, one))
        return gradients

    return backward


def _allreduce(kind: Kind, arrays: Sequence[Any], given: Sequence[str], traced: bool) -> List[Any]:
    """The operation with its gradient. A scale of Min, Max and Product is applied by JAX, which knows its derivative."""
    if not traced:
        return calls.run(kind, arrays, given, False)
    after = 1.0
    if kind.op in (Min, Max, Product) and all(map(_is_inexact, arrays)):
        arrays = [array * kind.prescale if kind.prescale != 1.0 else array for array in arrays]
        after = kind.postscale
        kind = kind._replace(prescale=1.0, postscale=1.0)
    results = with_gradient(lambda inputs: calls.start(kind, inputs, given), _allreduce_gradient(kind, given), arrays)
    return [result * after for result in results] if after != 1.0 else results


def reduction(kind: int, op: Any, process_set: ProcessSet, prescale: float, postscale: float) -> Kind:
    """What a reduction does. Raises ValueError for a wrong operator."""
    return Kind(kind, process_set, operations.reduce_op(None, op), 0, float(prescale), float(postscale))


def allreduce_group(kind: Kind, values: Sequence[Any], names: Optional[Sequence[Any]], compression: Any = Compression.none) -> List[Any]:
    """An all-reduce of several arrays in one call, as one group."""
    small, contexts = compressed(compression, values)
    arrays, given, traced = calls.prepare(kind, small, names)
    return decompressed(compression, _allreduce(kind, arrays, given, traced), contexts) if arrays else []


def allreduce(x: Any, op: int = Average, *, name: Optional[str] = None, process_set: ProcessSet = global_process_set,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0, compression: Any = Compression.none) -> Any:
    """Reduces arrays of one shape and dtype element by element. The result has the same bits on every rank.

    op: Average, Sum, Min, Max, Product, Adasum, BitAnd, BitOr or BitXor. name: equal on all ranks, and used once in a
    program; by default made from the line of the call. prescale_factor multiplies the input, postscale_factor the
    result. Under vmap one operation serves all elements. compression: the form in which f32 and f64 travel, such as
    Compression.bf16, or a class with compress() and decompress().
    """
    kind = reduction(ALLREDUCE, op, process_set, prescale_factor, postscale_factor)
    return allreduce_group(kind, [x], None if name is None else [name], compression)[0]


def grouped_allreduce(xs: Sequence[Any], op: int = Average, *, name: Optional[str] = None,
                      process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0, compression: Any = Compression.none) -> List[Any]:
    """allreduce() of several arrays as one group, which runs together. Array i is called "<name>.<i>"."""
    if not isinstance(xs, (list, tuple)):
        raise ValueError(f"give a list of arrays, not a {type(xs).__name__}; allreduce() takes one")
    kind = reduction(ALLREDUCE, op, process_set, prescale_factor, postscale_factor)
    return allreduce_group(kind, xs, None if name is None else [f"{name}.{index}" for index in range(len(xs))], compression)


def rows_of(process_set: ProcessSet, rows: int) -> List[int]:
    """The numbers of rows that a reduce-scatter of `rows` rows gives each rank of the set."""
    ranks = len(ranks_of(process_set))
    return [rows // ranks + (position < rows % ranks) for position in range(ranks)]


def reducescatter(x: Any, op: int = Average, *, name: Optional[str] = None, process_set: ProcessSet = global_process_set,
                  prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> Any:
    """Reduces arrays of one shape and dtype, and gives each rank a part of the rows of the result.

    Each rank gets the same number of rows; if they cannot be divided evenly, the first ranks get one more. Raises
    ValueError if the array has no dimension. Under vmap each element is an operation.
    """
    kind = reduction(REDUCESCATTER, op, process_set, prescale_factor, postscale_factor)
    (array,), given, traced = calls.prepare(kind, [x], None if name is None else [name])
    if array.ndim == 0:
        raise ValueError("a reduce-scatter deals out rows, and an array of no dimension has none; use allreduce()")
    counts = rows_of(process_set, array.shape[0])
    shape = (counts[process_set.rank()],) + array.shape[1:]
    if not traced:
        return calls.run(kind, [array], given, False, [shape])[0]

    def backward(inputs: List[Any], results: List[Any], cotangents: List[Any], real: Sequence[int]) -> List[Any]:
        if kind.op not in (Sum, Average):
            raise NotImplementedError(f"{given[0]}: a reduce-scatter with op={kind.op} has no gradient; Sum and Average have")
        factor = kind.prescale * kind.postscale / (len(counts) if kind.op == Average else 1)
        whole = calls.start(Kind(ALLGATHER, process_set), cotangents, [given[0] + ".grad"], [inputs[0].shape])
        return [whole[0] * jnp.asarray(factor, whole[0].dtype)]

    return with_gradient(lambda inputs: calls.start(kind, inputs, given, [shape]), backward, [array])[0]
