"""Horovod's place of SyncBatchNorm."""

from rueda.torch.sync_batch_norm import *  # noqa: F403
