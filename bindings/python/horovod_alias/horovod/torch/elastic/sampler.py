"""Horovod's place of ElasticSampler."""

from rueda.torch.elastic import ElasticSampler  # noqa: F401
