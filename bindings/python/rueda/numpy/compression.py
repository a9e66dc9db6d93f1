"""The compressors of arrays: the number formats in which they are sent."""

from typing import Any, Callable, List, Sequence, Tuple

import numpy

from rueda._native import lib
from rueda.compression import Cast, codec_of
from rueda.numpy.arrays import array_of


class _None(Cast):
    """Sends numbers as they are."""

    wide = (numpy.dtype("float32"), numpy.dtype("float64"))

    @staticmethod
    def cast(tensor: numpy.ndarray, dtype: Any) -> numpy.ndarray:
        """The array in this dtype."""
        return tensor.astype(dtype)


class _Fp16(_None):
    """IEEE half precision: f32 and f64 are sent in 2 bytes, and added in single precision."""

    codec = lib.RUEDA_CODEC_FP16
    dtype = numpy.dtype("float16")


class _Bf16(_None):
    """bfloat16: 2 bytes with the range of f32 and 8 bits of precision; added in single precision. The functions of this
    package need nothing more for it; compress() needs the package ml_dtypes, which has the dtype that NumPy lacks."""

    codec = lib.RUEDA_CODEC_BF16

    @classmethod
    def compress(cls, tensor: numpy.ndarray) -> Tuple[numpy.ndarray, Any]:
        """The array to send, and the context for decompress(). Raises ImportError without ml_dtypes."""
        if tensor.dtype not in cls.wide:
            return tensor, None
        import ml_dtypes

        return cls.cast(tensor, ml_dtypes.bfloat16), tensor.dtype


class Compression:
    """The compressors: none, fp16, bf16."""

    none = _None
    fp16 = _Fp16
    bf16 = _Bf16


def reduced(reduce: Callable[[Sequence[Any], int], List[numpy.ndarray]], tensors: Sequence[Any], compression: Any) -> List[numpy.ndarray]:
    """The results of reduce(tensors, codec). The library applies a codec; a class of the user's is applied here. Raises
    ValueError if it is not a compressor."""
    codec = codec_of(compression)
    if codec is not None:
        return reduce(tensors, codec)
    pairs = [compression.compress(array_of(tensor)) for tensor in tensors]
    results = reduce([array for array, _ in pairs], lib.RUEDA_CODEC_NONE)
    return [compression.decompress(result, context) for result, (_, context) in zip(results, pairs)]
