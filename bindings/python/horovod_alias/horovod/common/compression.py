"""The base class of compressors, which every framework's module has."""


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
