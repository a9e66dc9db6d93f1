"""SyncBatchNorm under the module name of Horovod."""

from rueda.torch.sync_batch_norm import *  # noqa: F403
