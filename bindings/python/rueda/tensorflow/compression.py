"""The compressors of gradients: the number formats in which they are sent."""

from typing import Any

from rueda._native import lib
from rueda.compression import Cast
from rueda.tensorflow.library import tf


class _None(Cast):
    """Sends numbers as they are."""

    wide = (tf.float32, tf.float64)

    @staticmethod
    def cast(tensor: Any, dtype: Any) -> Any:
        """The tensor in this dtype."""
        return tf.cast(tensor, dtype)


class _Fp16(_None):
    """IEEE half precision: f32 and f64 are sent in 2 bytes, and added in single precision."""

    codec = lib.RUEDA_CODEC_FP16
    dtype = tf.float16


class _Bf16(_None):
    """bfloat16: 2 bytes with the range of f32 and 8 bits of precision; added in single precision."""

    codec = lib.RUEDA_CODEC_BF16
    dtype = tf.bfloat16


class Compression:
    """The compressors: none, fp16, bf16."""

    none = _None
    fp16 = _Fp16
    bf16 = _Bf16
