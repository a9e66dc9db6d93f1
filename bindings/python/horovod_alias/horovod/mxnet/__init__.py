"""rueda.mxnet under the name of horovod.mxnet. Import it before mxnet if NumPy is younger than 1.24."""

from horovod.common.util import check_extension  # noqa: F401
from horovod.mxnet import compression, functions, mpi_ops  # noqa: F401
from rueda.mxnet import *  # noqa: F403
