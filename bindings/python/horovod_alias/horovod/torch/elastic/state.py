"""Horovod's place of TorchState."""

from rueda.torch.elastic import TorchState  # noqa: F401
