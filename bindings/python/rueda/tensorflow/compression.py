"""The compressors of gradients: the number formats in which they are sent."""

from typing import Any, Optional, Tuple

from rueda._native import lib
from rueda.tensorflow.library import tf


class _Cast:
    """Casts floating-point tensors.

    Rueda's reductions convert while they move the data, by the number `codec`. The two functions are for code that
    compresses by itself. A class of the user's with these two functions, and no `codec`, is a compressor too.
    """

    codec = lib.RUEDA_CODEC_NONE
    dtype: Any = None

    @classmethod
    def compress(cls, tensor: Any) -> Tuple[Any, Any]:
        """The tensor to send, and the context for decompress()."""
        if cls.dtype is None or tensor.dtype not in (tf.float32, tf.float64):
            return tensor, None
        return tf.cast(tensor, cls.dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor: Any, ctx: Any) -> Any:
        """The tensor in the dtype before compress(). ctx: what compress() returned."""
        return tensor if ctx is None else tf.cast(tensor, ctx)


class _None(_Cast):
    """Sends numbers as they are."""


class _Fp16(_Cast):
    """IEEE half precision: f32 and f64 are sent in 2 bytes, and added in single precision."""

    codec = lib.RUEDA_CODEC_FP16
    dtype = tf.float16


class _Bf16(_Cast):
    """bfloat16: 2 bytes with the range of f32 and 8 bits of precision; added in single precision."""

    codec = lib.RUEDA_CODEC_BF16
    dtype = tf.bfloat16


class Compression:
    """The compressors: none, fp16, bf16."""

    none = _None
    fp16 = _Fp16
    bf16 = _Bf16


def codec_of(compression: Any) -> Optional[int]:
    """The library's number of a codec; None for a class of the user's with compress() and decompress(). Raises
    ValueError for anything else."""
    codec = getattr(compression, "codec", None)
    if codec is None and not (hasattr(compression, "compress") and hasattr(compression, "decompress")):
        raise ValueError(f"compression={compression!r}: give Compression.none, Compression.fp16, Compression.bf16 or a class with "
                         "compress() and decompress()")  # fmt: skip
    return codec
