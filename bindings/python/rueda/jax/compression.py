"""The compressors of gradients: the number formats in which they are sent.

XLA's call has no place for the library's codec, so the arrays themselves are cast. Inside jit XLA fuses the casts with
what comes before and behind.
"""

from typing import Any, List, Sequence, Tuple

import jax.numpy as jnp

from rueda._native import lib
from rueda.compression import Cast, codec_of
from rueda.jax import calls


class _None(Cast):
    """Sends numbers as they are."""

    wide = (jnp.dtype("float32"), jnp.dtype("float64"))

    @staticmethod
    def cast(tensor: Any, dtype: Any) -> Any:
        """The array in this dtype."""
        return tensor.astype(dtype)


class _Fp16(_None):
    """IEEE half precision: f32 and f64 are sent in 2 bytes, and the result has its precision."""

    codec = lib.RUEDA_CODEC_FP16
    dtype = jnp.dtype("float16")


class _Bf16(_None):
    """bfloat16: 2 bytes with the range of f32 and 8 bits of precision, which the result has too."""

    codec = lib.RUEDA_CODEC_BF16
    dtype = jnp.dtype("bfloat16")


class Compression:
    """The compressors: none, fp16, bf16."""

    none = _None
    fp16 = _Fp16
    bf16 = _Bf16


def compressed(compression: Any, values: Sequence[Any]) -> Tuple[List[Any], List[Any]]:
    """The arrays to send, and what decompressed() needs. Raises ValueError if it is not a compressor, or if a value
    is not an array."""
    codec_of(compression)
    pairs = [compression.compress(calls.array_of(value)) for value in values]
    return [array for array, _ in pairs], [context for _, context in pairs]


def decompressed(compression: Any, results: Sequence[Any], contexts: Sequence[Any]) -> List[Any]:
    """The results in the form that the arrays had."""
    return [compression.decompress(result, context) for result, context in zip(results, contexts)]
