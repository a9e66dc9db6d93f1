"""rueda.torch under the name of horovod.torch."""

import importlib as _importlib

from horovod.common.util import check_extension  # noqa: F401
from rueda.torch import *  # noqa: F403

for _part in ("compression", "elastic", "functions", "mpi_ops", "optimizer", "sync_batch_norm"):
    _importlib.import_module(f"{__name__}.{_part}")  # scripts use hvd.mpi_ops; the import above may have bound rueda.torch's module of that name
