"""elastic.run() for programs that use torch.distributed beside it."""

import functools
from typing import Any, Callable

from rueda import elastic, plans
from rueda.errors import PeerLostError


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """rueda.elastic.run(). If a rank dies in the backward pass of DistributedDataParallel, PyTorch raises a plain RuntimeError
    with Rueda's sentence; once the plan is over, that counts as HorovodInternalError."""

    @functools.wraps(func)
    def translated(*args: Any, **kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except RuntimeError as error:
            if type(error) is RuntimeError and plans.is_over():
                raise PeerLostError(str(error)) from error
            raise

    return elastic.run(translated)
