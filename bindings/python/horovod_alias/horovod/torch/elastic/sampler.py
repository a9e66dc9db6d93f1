"""ElasticSampler under the module name of Horovod."""

from rueda.torch.elastic import ElasticSampler  # noqa: F401
