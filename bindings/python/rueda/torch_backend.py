"""Makes torch.distributed.init_process_group("rueda") work without an import of Rueda.

PyTorch finds register() by the package's entry point, and calls it when it is imported. The registration imports no
other module of Rueda and initialises nothing, so that it costs other programs nothing.
"""

from typing import Any


def register() -> None:
    """Registers the backend "rueda" with torch.distributed. Does nothing if that is done, or if PyTorch has no
    torch.distributed."""
    import torch.distributed as dist

    if dist.is_available() and not hasattr(dist.Backend, "RUEDA"):
        dist.Backend.register_backend("rueda", _create, extended_api=True, devices=["cpu", "cuda"])


def _create(options: Any, backend_options: Any) -> Any:
    from rueda.torch.distributed.process_group import create

    return create(options)
