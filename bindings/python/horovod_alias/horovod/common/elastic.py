"""Horovod's place of elastic training, which Rueda does not have: each use says so."""

from rueda.torch.elastic import run as run_fn  # noqa: F401
