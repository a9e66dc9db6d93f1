"""What gradients travel as."""

from typing import Any, Optional, Tuple

import torch

from rueda._native import lib


class _Cast:
    """Casts floating-point tensors. Rueda's own reductions do it on the way, in the pass that moves the data anyway; the
    two functions are for code that compresses by itself. A class with them, and no `codec`, is a compressor too."""

    codec = lib.RUEDA_CODEC_NONE
    dtype: Any = None

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        """The tensor as it is to travel, and what decompress() needs to know."""
        if cls.dtype is None or tensor.dtype not in (torch.float32, torch.float64):
            return tensor, None
        return tensor.to(cls.dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """The tensor in the dtype that it had before compress()."""
        return tensor if ctx is None else tensor.to(ctx)


class _None(_Cast):
    """As it is."""


class _Fp16(_Cast):
    """IEEE half precision: f32 and f64 travel in 2 bytes; sums are formed in single precision."""

    codec = lib.RUEDA_CODEC_FP16
    dtype = torch.float16


class _Bf16(_Cast):
    """bfloat16: the range of f32, 8 bits of precision."""

    codec = lib.RUEDA_CODEC_BF16
    dtype = torch.bfloat16


def codec_of(compression: Any) -> Optional[int]:
    """The library's number for one of ours; None: a class with compress() and decompress() of its own. ValueError: neither."""
    codec = getattr(compression, "codec", None)
    if codec is None and not (hasattr(compression, "compress") and hasattr(compression, "decompress")):
        raise ValueError(f"compression={compression!r}: Compression.none, Compression.fp16, Compression.bf16 or a class with "
                         "compress() and decompress() is needed")  # fmt: skip
    return codec


class Compression:
    """The compressors: none, fp16, bf16."""

    none = _None
    fp16 = _Fp16
    bf16 = _Bf16
