"""Makes torch.distributed.init_process_group("rueda") work without an import: PyTorch calls register() when it is imported.

Registration imports nothing of Rueda's and initialises nothing.
"""

from typing import Any


def register() -> None:
    """Tells torch.distributed of the backend "rueda". Does nothing where that is done, or PyTorch has no distributed part."""
    import torch.distributed as dist

    if dist.is_available() and not hasattr(dist.Backend, "RUEDA"):
        dist.Backend.register_backend("rueda", _create, extended_api=True, devices=["cpu", "cuda"])


def _create(options: Any, backend_options: Any) -> Any:
    from rueda.torch.distributed.process_group import create

    return create(options)
