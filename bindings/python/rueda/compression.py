"""What the compressors of all frameworks have in common. A framework's package adds the dtypes and the cast."""

from typing import Any, Optional, Tuple

from rueda._native import lib


class Cast:
    """Casts floating-point tensors. A framework's compressors are subclasses.

    Rueda's reductions convert while they move the data, by the number `codec`. The two functions are for code that
    compresses by itself. A class of the user's with these two functions, and no `codec`, is a compressor too.
    """

    codec = lib.RUEDA_CODEC_NONE
    dtype: Any = None  # that tensors are sent in; None: their own
    wide: Tuple[Any, ...] = ()  # the dtypes that are cast

    @staticmethod
    def cast(tensor: Any, dtype: Any) -> Any:
        """The tensor in this dtype."""
        raise NotImplementedError

    @classmethod
    def compress(cls, tensor: Any) -> Tuple[Any, Any]:
        """The tensor to send, and the context for decompress()."""
        if cls.dtype is None or tensor.dtype not in cls.wide:
            return tensor, None
        return cls.cast(tensor, cls.dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor: Any, ctx: Any) -> Any:
        """The tensor in the dtype before compress(). ctx: what compress() returned."""
        return tensor if ctx is None else cls.cast(tensor, ctx)


def codec_of(compression: Any) -> Optional[int]:
    """The library's number of a codec; None for a class of the user's with compress() and decompress(). Raises
    ValueError for anything else."""
    codec = getattr(compression, "codec", None)
    if codec is None and not (hasattr(compression, "compress") and hasattr(compression, "decompress")):
        raise ValueError(f"compression={compression!r}: give Compression.none, Compression.fp16, Compression.bf16 or a class with "
                         "compress() and decompress()")  # fmt: skip
    return codec
