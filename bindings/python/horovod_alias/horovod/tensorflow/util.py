"""Small functions under the module name of Horovod."""

from rueda.tensorflow.util import _executing_eagerly, gpu_available  # noqa: F401
