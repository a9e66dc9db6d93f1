"""Compression under the module name of Horovod."""

from rueda.mxnet.optimizer import Compression  # noqa: F401

NoneCompressor = Compression.none
FP16Compressor = Compression.fp16
