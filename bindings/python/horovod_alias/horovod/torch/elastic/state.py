"""TorchState under the module name of Horovod."""

from rueda.torch.elastic import TorchState  # noqa: F401
