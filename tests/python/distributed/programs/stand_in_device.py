"""A device whose memory no pointer reaches: its tensors have none, and PyTorch's operations on them run on tensors of the host that
stand for their memory. Importing it brings the device "standin" into the process."""

import torch
from torch.utils._pytree import tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend


class StandIn(torch.Tensor):
    """A tensor on the device. numbers: what stands for its memory; views share it."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, numbers):
        made = torch._C._acc.create_empty_tensor(tuple(numbers.shape), numbers.dtype)
        made.__class__ = cls
        return made

    def __init__(self, numbers):
        self.numbers = numbers

    def detach(self):
        return StandIn(self.numbers.detach())


def _on_host(operation, *arguments, **keywords):
    if keywords.get("device") is not None:
        keywords["device"] = "cpu"
    given = {}

    def host(tensor):
        given[id(tensor.numbers)] = tensor
        return tensor.numbers

    arguments, keywords = tree_map_only(StandIn, host, (arguments, keywords))
    result = operation(*arguments, **keywords)
    return tree_map_only(torch.Tensor, lambda numbers: given[id(numbers)] if id(numbers) in given else StandIn(numbers), result)


def _copy_from(source, target, non_blocking=False):
    numbers = target.numbers if isinstance(target, StandIn) else target
    numbers.copy_(source.numbers if isinstance(source, StandIn) else source)
    return target


_setup_privateuseone_for_python_backend("standin")
_library = torch.library.Library("_", "IMPL")
_library.fallback(_on_host, "PrivateUse1")
_aten = torch.library.Library("aten", "IMPL")
_aten.impl("_copy_from", _copy_from, "PrivateUse1")
