"""What PyTorch asks a process group about itself: its rank, its size, its names and what it supports."""

from typing import Any, List

import torch
from torch._C._distributed_c10d import ProcessGroup

from rueda.torch import graphs, placed


class NamedGroup(ProcessGroup):
    """The part of a process group that begins no operation. Ranks are the group's own. Any thread may ask.

    The names of the methods are those of PyTorch's C++, which looks them up.
    """

    supports_coalescing = supports_time_estimate = False
    supports_splitting = True  # else PyTorch does not tell the group the device_id of init_process_group()
    options = None  # of splits

    def __init__(self, options: Any):
        """options: PyTorch's, with the rank, the size and the store of the group."""
        super().__init__(options.group_rank, options.group_size)
        self._own_rank, self._own_size = options.group_rank, options.group_size
        self._store = options.store
        self._names = {"group_name": "", "group_desc": ""}
        self._begun = 0  # operations, which tools compare between ranks to find one that is behind

    def rank(self) -> int:
        """The rank of this process in the group."""
        return self._own_rank

    def size(self) -> int:
        """The number of ranks in the group."""
        return self._own_size

    def name(self) -> str:
        """The name of the backend."""
        return "rueda"

    getRank, getSize, getBackendName, _get_backend_name = rank, size, name, name

    def setGroupName(self, name: str) -> None:
        """Stores the name that PyTorch gives the group."""
        self._names["group_name"] = name

    def getGroupName(self) -> str:
        """The name that PyTorch gave the group, "" if it gave none."""
        return self._names["group_name"]

    def setGroupDesc(self, text: str) -> None:
        """Stores the program's description of the group."""
        self._names["group_desc"] = text

    def getGroupDesc(self) -> str:
        """The program's description of the group, "" if there is none."""
        return self._names["group_desc"]

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    @property
    def _device_types(self) -> List[torch.device]:
        return [torch.device(device_type) for device_type in placed.reached_types()]

    def eager_connect_single_device(self, device: torch.device) -> None:
        """Takes the device_id of init_process_group(): PyTorch's later groups are bound to it, and barriers wait for its
        current stream. Nothing is allocated there before the first tensor."""
        self.bound_device_id = device
        placed.use(device)

    def perform_nocolor_split(self, device: torch.device) -> None:
        """Does nothing: ranks that are in no part of a split have no part in it."""

    def split_group(self, *_: Any, **__: Any) -> None:
        """Raises RuntimeError: use torch.distributed.new_group()."""
        raise RuntimeError("Rueda's groups are not split; torch.distributed.new_group(ranks) makes a group of some ranks")

    def _get_backend(self, device: Any) -> "NamedGroup":
        return self

    def get_group_store(self) -> Any:
        """PyTorch's store of the group; None once the group is destroyed."""
        return self._store

    def _set_sequence_number_for_group(self) -> None:
        """Does nothing: operations are numbered from the beginning."""

    def _get_sequence_number_for_group(self) -> int:
        """How many operations of all ranks this rank has begun."""
        return self._begun


graphs.leave_alone(NamedGroup)
