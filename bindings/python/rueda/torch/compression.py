"""The compressors of gradients: the number formats in which they are sent."""

from typing import Any

import torch

from rueda._native import lib
from rueda.compression import Cast


class _None(Cast):
    """Sends numbers as they are."""

    wide = (torch.float32, torch.float64)

    @staticmethod
    def cast(tensor: torch.Tensor, dtype: Any) -> torch.Tensor:
        """The tensor in this dtype."""
        return tensor.to(dtype)


class _Fp16(_None):
    """IEEE half precision: f32 and f64 are sent in 2 bytes, and added in single precision."""

    codec = lib.RUEDA_CODEC_FP16
    dtype = torch.float16


class _Bf16(_None):
    """bfloat16: 2 bytes with the range of f32 and 8 bits of precision; added in single precision."""

    codec = lib.RUEDA_CODEC_BF16
    dtype = torch.bfloat16


class Compression:
    """The compressors: none, fp16, bf16."""

    none = _None
    fp16 = _Fp16
    bf16 = _Bf16
