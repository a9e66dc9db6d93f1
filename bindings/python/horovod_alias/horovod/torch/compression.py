"""Horovod's place of Compression."""

from rueda.torch.compression import *  # noqa: F403
from rueda.torch.compression import Compression

NoneCompressor = Compression.none
FP16Compressor = Compression.fp16


class Compressor:
    """What compressors of one's own derive from."""

    @staticmethod
    def compress(tensor):
        """The tensor as it is to travel, and what decompress() needs to know."""
        raise NotImplementedError("a compressor has a compress(tensor) of its own")

    @staticmethod
    def decompress(tensor, ctx):
        """The tensor as it was before compress()."""
        raise NotImplementedError("a compressor has a decompress(tensor, ctx) of its own")
