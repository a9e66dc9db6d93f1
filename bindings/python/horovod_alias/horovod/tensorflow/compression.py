"""Compression under the module name of Horovod."""

from horovod.common.compression import Compressor  # noqa: F401

from rueda.tensorflow.compression import Compression

NoneCompressor = Compression.none
FP16Compressor = Compression.fp16
