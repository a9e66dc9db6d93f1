"""Gradients as views of larger tensors, the buffers: one operation reduces many gradients, without a copy."""

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch

from rueda.errors import CollectiveError
from rueda.handles import Handle
from rueda.operations import Adasum
from rueda.session import current, current_or_none
from rueda.torch.asynchronous import start_group, start_in_place
from rueda.torch.reducer import GradientReducer, Group, Member, Reduction
from rueda.torch.shared_tensors import zeros
from rueda.torch.tensors import memory_extents

# The size of a buffer that the user has not chosen: small enough that the first ones are reduced while the backward
# pass still runs.
_BUFFER_BYTES = 8 << 20


class BufferedReducer(GradientReducer):
    """A reducer with a buffer for each group, and the gradients as views of it.

    Parameters in no group are put into groups in the order in which a backward pass usually makes gradients, the last
    first. A gradient that is not its view any more (it was set to None or replaced, or got other memory as by
    model.to()) is copied into the view. The first reduction of a buffer sends its views as a group, so that ranks with
    another layout get a MismatchError; so does the first one after each join, since a rank that had joined may have
    missed the comparison.
    """

    def __init__(self, named: Sequence[Tuple[str, torch.Tensor]], groups: Sequence[Sequence[torch.Tensor]], how: Reduction,
                 passes_per_step: int):
        if how.codec is None:
            raise ValueError("gradient_as_buffer_view needs Compression.none, fp16 or bf16, not a class of your own")
        if how.op == Adasum:
            raise ValueError("gradient_as_buffer_view cannot be used with op=Adasum, which treats each gradient by itself")
        super().__init__(named, _buffers([parameter for _, parameter in named], groups), how, passes_per_step)
        self._memory: Dict[Group, torch.Tensor] = {}
        self._made_in: Dict[Group, Any] = {}  # the session
        self._slices: Dict[Member, _Slice] = {}
        self._views: Dict[Member, torch.Tensor] = {}
        self._compared: Dict[Group, Any] = {}  # (session, joins) when ranks last compared the layout
        for group in self._groups:
            self._lay_out(group)
        self.cleared()

    def _lay_out(self, group: Group) -> None:
        begin = 0
        for member in group.members:
            parameter = member.parameter
            dense = memory_extents(parameter) is not None
            strides = parameter.stride() if dense else torch.empty(parameter.shape, device="meta").stride()
            self._slices[member] = _Slice(begin, parameter.shape, strides)
            begin += parameter.numel()
        self._make_memory(group, begin)

    def _make_memory(self, group: Group, count: int) -> torch.Tensor:
        like = group.members[0].parameter
        memory = self._memory[group] = _zeros(count, like.dtype, like.device)
        self._made_in[group] = current_or_none()
        return memory

    def _memory_of(self, group: Group) -> torch.Tensor:
        """The buffer, with the dtype and device that its parameters have now. Raises ValueError if they have several.
        """
        memory = self._memory[group]
        if current_or_none() not in (None, self._made_in[group]):
            memory = self._make_memory(group, memory.numel())  # other ranks share what belongs to this session only
        kinds = {(member.parameter.dtype, member.parameter.device) for member in group.members}
        if kinds == {(memory.dtype, memory.device)}:
            return memory
        if len(kinds) > 1:
            raise ValueError(f"gradient_as_buffer_view: the parameters of one buffer now have several dtypes or devices, {kinds}; call "
                             "DistributedOptimizer() again")  # fmt: skip
        return self._make_memory(group, memory.numel())

    def _view_of(self, member: Member, memory: torch.Tensor) -> torch.Tensor:
        """The member's view of its buffer: the same tensor as the last time, unless that has got other memory since."""
        slice_, view = self._slices[member], self._views.get(member)
        address = memory.data_ptr() + slice_.begin * memory.element_size()
        if view is None or view.data_ptr() != address or view.dtype != memory.dtype or view.stride() != slice_.strides:
            view = self._views[member] = memory.as_strided(slice_.shape, slice_.strides, slice_.begin)
        return view

    def cleared(self) -> None:
        """Zeroes the buffers, and makes every gradient its view again."""
        for group in self._groups:
            memory = self._memory_of(group).zero_()
            for member in group.members:
                member.parameter.grad = self._view_of(member, memory)

    def _make_zero(self, member: Member) -> None:
        if member not in self._slices:
            return super()._make_zero(member)
        self._without.append(member.name.decode())
        member.parameter.grad = self._view_of(member, self._memory_of(member.group)).zero_()

    def _enqueue_group(self, group: Group) -> None:
        group.missing = 0
        memory = self._memory_of(group)
        for member in group.members:
            gradient, known = member.parameter.grad, self._views[member]
            view = self._view_of(member, memory)
            if gradient is not view or view is not known:
                view.copy_(gradient.detach().to_dense() if gradient.is_sparse else gradient.detach())
                member.parameter.grad = view
        handle = self._start(group)
        for member in group.members:
            member.handle = handle
            self._sent.append((member, self._views[member].data_ptr()))

    def _start(self, group: Group) -> Handle:
        here, how = current(), self._how
        now = (here, here.joins[self._set])
        if self._compared.get(group) == now:
            return start_in_place(here, group.name.encode(), how.options(self._set), self._memory[group])
        views = [self._views[member] for member in group.members]
        handle = start_group(group.name, how.options(self._set), views, True)
        handle.also(lambda *_: self._compared.update({group: now}))
        return handle


def _zeros(count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A buffer, where the ranks of this host reduce it in place if it can lie there."""
    if device.type == "cpu":
        try:
            return zeros(count, dtype=dtype)
        except CollectiveError:  # the budget is spent, or there is no session: private memory takes a copy, and serves
            pass
    return torch.zeros(count, dtype=dtype, device=device)


class _Slice(NamedTuple):
    """A gradient's part of a buffer: its first element, and the shape and strides that its parameter had in
    DistributedOptimizer()."""

    begin: int
    shape: Sequence[int]
    strides: Sequence[int]


def _buffers(parameters: List[torch.Tensor], groups: Sequence[Sequence[torch.Tensor]]) -> List[List[torch.Tensor]]:
    """All parameters in groups, each with one dtype and device."""
    placed = {parameter for group in groups for parameter in group}
    rest = [parameter for parameter in reversed(parameters) if parameter not in placed]
    made: List[List[torch.Tensor]] = []
    for group in [*groups, *_portions(rest)]:
        kinds: Dict[Any, List[torch.Tensor]] = {}
        for parameter in group:
            kinds.setdefault((parameter.dtype, parameter.device), []).append(parameter)
        made.extend(kinds.values())
    return made


def _portions(parameters: List[torch.Tensor]) -> List[List[torch.Tensor]]:
    """The parameters in their order, divided into portions of at most _BUFFER_BYTES each, or one parameter."""
    portions: List[List[torch.Tensor]] = []
    room = 0
    for parameter in parameters:
        size = parameter.numel() * parameter.element_size()
        if size > room:
            portions.append([])
            room = _BUFFER_BYTES
        portions[-1].append(parameter)
        room -= size
    return portions
