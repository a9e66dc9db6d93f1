"""Sparse gradients that are reduced as dense ones, and are sparse again when the optimizer steps."""

from typing import Any, Dict, Iterable, Set

import torch


class DenseStandIns:
    """The members of a reducer with sparse gradients, whose parameters have dense gradients from the enqueue to the end
    of the wait.

    One thread at a time uses it, except for replace(), which hooks call. Those hold Python's lock.
    """

    def __init__(self) -> None:
        self._dimensions: Dict[Any, int] = {}  # the sparse dimensions of each member's last sparse gradient
        self._replaced: Set[Any] = set()  # in this step

    def expect(self, members: Iterable[Any]) -> None:
        """Notes members whose gradients must be sparse, as those of an embedding are, even if the first is missing."""
        self._dimensions.update({member: 1 for member in members})

    def replace(self, member: Any) -> None:
        """Makes the member's sparse gradient dense."""
        gradient = member.parameter.grad
        self._dimensions[member] = gradient.sparse_dim()
        self._replaced.add(member)
        member.parameter.grad = gradient.to_dense()

    def stand_for_missing(self, member: Any) -> None:
        """Notes that the member has dense zeros in place of a gradient. They become sparse if its last gradient was."""
        if member in self._dimensions:
            self._replaced.add(member)

    def restore(self) -> None:
        """Makes the gradients of this step sparse again. Members whose gradients came dense stay dense from here on."""
        for member in self._replaced:
            gradient = member.parameter.grad
            if gradient is not None and gradient.layout is torch.strided:
                member.parameter.grad = gradient.to_sparse(self._dimensions[member])
        self._dimensions = {member: count for member, count in self._dimensions.items() if member in self._replaced}
        self._replaced.clear()

    def forget(self) -> None:
        """Begins a new step."""
        self._replaced.clear()
