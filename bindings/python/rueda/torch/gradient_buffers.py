"""Gradients as views of the tensors that are reduced: one operation for many, and nothing to gather or to put back."""

from typing import Any, Dict, List, Sequence, Tuple

import torch

from rueda.operations import ALLREDUCE, Adasum
from rueda.session import current
from rueda.torch.asynchronous import start_in_place
from rueda.torch.reducer import GradientReducer, Group, Member, Reduction
from rueda.torch.tensors import memory_extents

# Where nobody says which gradients go together: small enough that the first leave while the backward pass makes others.
_BUFFER_BYTES = 8 << 20


class BufferedReducer(GradientReducer):
    """A reducer whose gradients are views of one tensor per group. Parameters in no group are put into some, in the order in
    which a backward pass usually makes gradients: the last first.

    Between steps a gradient may be anything: what is not the view, because somebody set it to None or to another tensor, is
    copied into it.
    """

    def __init__(self, named: Sequence[Tuple[str, torch.Tensor]], groups: Sequence[Sequence[torch.Tensor]], how: Reduction,
                 passes_per_step: int):
        if how.codec is None:
            raise ValueError("gradient_as_buffer_view needs Compression.none, fp16 or bf16")
        if how.op == Adasum:
            raise ValueError("gradient_as_buffer_view needs another op than Adasum, which looks at each gradient by itself")
        super().__init__(named, _buffers([parameter for _, parameter in named], groups), how, passes_per_step)
        self._memory: Dict[Group, torch.Tensor] = {}
        self._views: Dict[Member, torch.Tensor] = {}
        for group in self._groups:
            self._lay_out(group)
        self.cleared()

    def _lay_out(self, group: Group) -> None:
        like = group.members[0].parameter
        sizes = [member.parameter.numel() for member in group.members]
        memory = self._memory[group] = torch.zeros(sum(sizes), dtype=like.dtype, device=like.device)
        for member, piece in zip(group.members, memory.split(sizes)):
            parameter = member.parameter
            dense = memory_extents(parameter) is not None
            self._views[member] = piece.as_strided(parameter.shape, parameter.stride()) if dense else piece.view(parameter.shape)

    def cleared(self) -> None:
        for memory in self._memory.values():
            memory.zero_()
        for member, view in self._views.items():
            member.parameter.grad = view

    def _make_zero(self, member: Member) -> None:
        view = self._views[member]
        member.parameter.grad = view.zero_()

    def _enqueue_group(self, group: Group) -> None:
        group.missing = 0
        for member in group.members:
            gradient, view = member.parameter.grad, self._views[member]
            if gradient is not view:
                view.copy_(gradient.detach().to_dense() if gradient.is_sparse else gradient.detach())
                member.parameter.grad = view
        how = self._how
        handle = start_in_place(current(), ALLREDUCE, self._memory[group], how.op, group.name.encode(), self._set, how.codec,
                                how.prescale, how.postscale)  # fmt: skip
        for member in group.members:
            member.handle = handle
            self._sent.append((member, self._views[member].data_ptr()))


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
