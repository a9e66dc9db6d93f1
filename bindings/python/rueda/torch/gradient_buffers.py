"""Gradients as views of the tensors that are reduced: one operation for many, and nothing to gather or to put back."""

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch

from rueda.handles import Handle
from rueda.operations import Adasum
from rueda.session import current
from rueda.torch.asynchronous import start_group, start_in_place
from rueda.torch.reducer import GradientReducer, Group, Member, Reduction
from rueda.torch.tensors import memory_extents

# Where nobody says which gradients go together: small enough that the first leave while the backward pass makes others.
_BUFFER_BYTES = 8 << 20


class BufferedReducer(GradientReducer):
    """A reducer whose gradients are views of one tensor per group. Parameters in no group are put into some, in the order in
    which a backward pass usually makes gradients: the last first.

    Between steps a gradient may be anything: what is not the view, because somebody set it to None or to another tensor, or gave
    it other memory as model.to() does, is copied into it. The first time that a buffer is reduced its views go as a group, so
    that ranks whose views lie otherwise get a MismatchError; again after each join, in which a rank may have missed that.
    """

    def __init__(self, named: Sequence[Tuple[str, torch.Tensor]], groups: Sequence[Sequence[torch.Tensor]], how: Reduction,
                 passes_per_step: int):
        if how.codec is None:
            raise ValueError("gradient_as_buffer_view needs Compression.none, fp16 or bf16")
        if how.op == Adasum:
            raise ValueError("gradient_as_buffer_view needs another op than Adasum, which looks at each gradient by itself")
        super().__init__(named, _buffers([parameter for _, parameter in named], groups), how, passes_per_step)
        self._memory: Dict[Group, torch.Tensor] = {}
        self._places: Dict[Member, _Place] = {}
        self._views: Dict[Member, torch.Tensor] = {}
        self._compared: Dict[Group, Any] = {}  # when all ranks were found to lay it out alike: the session, and joins before
        for group in self._groups:
            self._lay_out(group)
        self.cleared()

    def _lay_out(self, group: Group) -> None:
        begin = 0
        for member in group.members:
            parameter = member.parameter
            dense = memory_extents(parameter) is not None
            strides = parameter.stride() if dense else torch.empty(parameter.shape, device="meta").stride()
            self._places[member] = _Place(begin, parameter.shape, strides)
            begin += parameter.numel()
        self._make_memory(group, begin)

    def _make_memory(self, group: Group, count: int) -> torch.Tensor:
        like = group.members[0].parameter
        memory = self._memory[group] = torch.zeros(count, dtype=like.dtype, device=like.device)
        return memory

    def _memory_of(self, group: Group) -> torch.Tensor:
        """The buffer, of the dtype and on the device that its parameters have now. ValueError: they differ."""
        memory = self._memory[group]
        kinds = {(member.parameter.dtype, member.parameter.device) for member in group.members}
        if kinds == {(memory.dtype, memory.device)}:
            return memory
        if len(kinds) > 1:
            raise ValueError(f"gradient_as_buffer_view: the parameters of one buffer have become of different kinds, {kinds}; wrap "
                             "the optimizer anew")  # fmt: skip
        return self._make_memory(group, memory.numel())

    def _view_of(self, member: Member, memory: torch.Tensor) -> torch.Tensor:
        """The member's part of its buffer: the same tensor as the last time, unless somebody has given that other memory."""
        place, view = self._places[member], self._views.get(member)
        address = memory.data_ptr() + place.begin * memory.element_size()
        if view is None or view.data_ptr() != address or view.dtype != memory.dtype or view.stride() != place.strides:
            view = self._views[member] = memory.as_strided(place.shape, place.strides, place.begin)
        return view

    def cleared(self) -> None:
        for group in self._groups:
            memory = self._memory_of(group).zero_()
            for member in group.members:
                member.parameter.grad = self._view_of(member, memory)

    def _make_zero(self, member: Member) -> None:
        if member not in self._places:
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


class _Place(NamedTuple):
    """A gradient's part of a buffer: from an element on, as its parameter lay when the optimizer was made."""

    begin: int
    shape: Sequence[int]
    strides: Sequence[int]


def _buffers(parameters: List[torch.Tensor], groups: Sequence[Sequence[torch.Tensor]]) -> List[List[torch.Tensor]]:
    """All parameters in groups of one dtype and device each."""
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
    """Parameters one after the other, up to _BUFFER_BYTES together."""
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
