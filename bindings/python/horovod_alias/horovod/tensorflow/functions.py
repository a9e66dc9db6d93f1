"""broadcast_variables() and other functions of state under the module name of Horovod."""

from rueda.tensorflow.objects import allgather_object, broadcast_object, broadcast_object_fn  # noqa: F401
from rueda.tensorflow.variables import broadcast_, broadcast_global_variables, broadcast_variables  # noqa: F401
