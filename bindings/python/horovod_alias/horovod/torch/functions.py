"""broadcast_parameters() and other functions of state under the module name of Horovod."""

from rueda.torch.state import *  # noqa: F403
