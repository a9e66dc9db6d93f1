"""rueda.torch under the name of horovod.torch."""

import importlib as _importlib

from horovod.common.util import check_extension  # noqa: F401
from rueda.torch import *  # noqa: F403

for _part in ("compression", "elastic", "functions", "mpi_ops", "optimizer", "sync_batch_norm"):
    _importlib.import_module(f"{__name__}.{_part}")  # scripts say hvd.mpi_ops; Rueda's own parts have some of these names, too
