"""rueda.tensorflow under the name of horovod.tensorflow."""

import importlib as _importlib

from horovod.common.util import check_extension  # noqa: F401
from rueda.tensorflow import *  # noqa: F403

for _part in ("compression", "elastic", "functions", "mpi_ops", "util"):
    _importlib.import_module(f"{__name__}.{_part}")  # scripts use hvd.mpi_ops; the import above may have bound rueda.tensorflow's module of that name
