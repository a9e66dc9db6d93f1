"""DistributedDataParallel's reducers over groups of this backend, and their built-in communication hooks.

PyTorch's own are C++ that takes the value of a work's future for a list of C++'s tensors, which the value of a future
made in Python never is. So the reducer of such a group gets the hook in Python instead that computes the same:
PyTorch has one for each.
"""

import functools
import weakref
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import Reducer

from rueda.torch.distributed import averages, bucket_memory
from rueda.torch.distributed.other_backends import SharingGroup

_groups: Any = weakref.WeakKeyDictionary()  # the group of each reducer over this backend


def _same_in_python(built_in: Any) -> Any:
    """The hook in Python that computes what a built-in one does; None if PyTorch has none, or for another object."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks  # late: few programs need it, and it loads much

    hooks = {"ALLREDUCE": default_hooks.allreduce_hook, "FP16_COMPRESS": default_hooks.fp16_compress_hook}
    return hooks.get(getattr(built_in, "name", None))


def install() -> None:
    """Makes the registration of a built-in hook register the one in Python, if the reducer's group is of this backend.
    Lets such a reducer average while it sums, and its buckets move into shared memory."""
    made, register = Reducer.__init__, dist._register_builtin_comm_hook
    if hasattr(register, "serves_rueda"):
        return

    @functools.wraps(made)
    def noting_init(self: Any, *arguments: Any, **named: Any) -> None:
        made(self, *arguments, **named)
        group = named.get("process_group", arguments[3] if len(arguments) > 3 else None)
        if isinstance(group, dist.ProcessGroup) and group.name() == "rueda":
            _groups[self] = group
            if not isinstance(group, SharingGroup):  # another backend may know no averages
                averages.watch(self, group)
            if named.get("gradient_as_bucket_view", len(arguments) > 7 and arguments[7]):
                bucket_memory.watch(self, named.get("params", arguments[0] if arguments else ()))

    @functools.wraps(register)
    def register_for_group(reducer: Any, comm_hook_type: Any) -> None:
        group = _groups.get(reducer)
        hook = None if group is None else _same_in_python(comm_hook_type)
        if hook is None:
            register(reducer, comm_hook_type)
        else:
            dist._register_comm_hook(reducer, group, hook)

    register_for_group.serves_rueda = True  # type: ignore[attr-defined]
    Reducer.__init__ = noting_init
    dist._register_builtin_comm_hook = register_for_group
