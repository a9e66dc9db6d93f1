"""Compression under the module name of Horovod."""

from rueda.tensorflow.compression import Compression

NoneCompressor = Compression.none
FP16Compressor = Compression.fp16


class Compressor:
    """The base class of a user's compressor."""

    @staticmethod
    def compress(tensor):
        """The tensor to send, and the context for decompress()."""
        raise NotImplementedError("a compressor must define compress(tensor)")

    @staticmethod
    def decompress(tensor, ctx):
        """The tensor in the form before compress()."""
        raise NotImplementedError("a compressor must define decompress(tensor, ctx)")
