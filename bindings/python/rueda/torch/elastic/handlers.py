"""How a TorchState saves, restores and sends the values that are more than plain objects."""

import copy
from typing import Any, List, Tuple, Type

import torch

from rueda.elastic.state import require_names
from rueda.objects import broadcast_object
from rueda.torch.elastic.sampler import ElasticSampler
from rueda.torch.optimizer import _Distributed
from rueda.torch.state import broadcast_optimizer_state, broadcast_parameters


class StateHandler:
    """Takes care of one value of a TorchState. A class of your own for another kind of value goes into the registry.

    value: the object itself. root_rank: the rank whose value sync() gives to all; TorchState sets it.
    """

    root_rank = 0

    def __init__(self, value: Any):
        self.value = value

    def save(self) -> None:
        """Keeps a copy of what the value holds."""
        raise NotImplementedError(f"{type(self).__name__} must define save()")

    def restore(self) -> None:
        """Puts the copy of save() back into the value."""
        raise NotImplementedError(f"{type(self).__name__} must define restore()")

    def sync(self) -> None:
        """Gives the values of all ranks what the root's value holds, and saves that. Every rank calls it."""
        raise NotImplementedError(f"{type(self).__name__} must define sync()")

    def receive(self) -> None:
        """As sync(); a handler that does not save here lets a TorchState save all its values together, or none if a rank
        dies meanwhile."""
        self.sync()

    def kept(self) -> Any:
        """What save() has kept, for a commit on disk: anything that can be pickled."""
        raise NotImplementedError(f"{type(self).__name__} must define kept() and keep() for a state with checkpoint=")

    def keep(self, saved: Any) -> None:
        """Has restore() set `saved`, which kept() has returned in an earlier job. Raises ValueError if it does not fit."""
        raise NotImplementedError(f"{type(self).__name__} must define kept() and keep() for a state with checkpoint=")

    def reset(self) -> None:
        """Called when this process has joined the next plan. Does nothing here."""

    def set_value(self, value: Any) -> None:
        """Replaces the object, and saves what the new one holds."""
        self.value = value
        self.save()


class _OwnHandler(StateHandler):
    """A handler of this module: it saves when it is made."""

    def __init__(self, value: Any):
        super().__init__(value)
        self.save()

    def sync(self) -> None:
        self.receive()
        self.save()

    def kept(self) -> Any:
        return self._saved

    def keep(self, saved: Any) -> None:
        self._saved = saved


class ModelStateHandler(_OwnHandler):
    """A torch.nn.Module: its state_dict()."""

    def save(self) -> None:
        """Copies the state_dict()."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Loads the copy."""
        self.value.load_state_dict(self._saved)

    def keep(self, saved: Any) -> None:
        """Raises ValueError, which names the parameter or buffer, if the model is another one."""
        require_names("parameters and buffers", saved, self._saved)
        for name, ours in self._saved.items():
            shapes = [list(each.shape) if isinstance(each, torch.Tensor) else None for each in (saved[name], ours)]
            if shapes[0] != shapes[1]:
                raise ValueError(f"its {name!r} has shape {shapes[0]}, that of the model {shapes[1]}")
        super().keep(saved)

    def receive(self) -> None:
        """Overwrites parameters and buffers with the root's."""
        broadcast_parameters(self.value.state_dict(), self.root_rank)


class OptimizerStateHandler(_OwnHandler):
    """An optimizer, distributed or not: its state_dict(). What a distributed one has left of a step that failed is
    dropped."""

    def save(self) -> None:
        """Copies the state_dict()."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Loads the copy, with nothing left of a step."""
        self._drop_step()
        self.value.load_state_dict(copy.deepcopy(self._saved))  # it keeps the tensors that it is given

    def receive(self) -> None:
        """Overwrites the state and the options with the root's."""
        broadcast_optimizer_state(self.value, self.root_rank)

    def reset(self) -> None:
        """Drops what is left of a step, since its operations belong to the plan before."""
        self._drop_step()

    def _drop_step(self) -> None:
        reducer = self.value._reducer if isinstance(self.value, _Distributed) else None
        if reducer is not None:
            reducer.forget()
        self.value.zero_grad()


class SamplerStateHandler(_OwnHandler):
    """An ElasticSampler: the epoch, and how much of it is read."""

    def save(self) -> None:
        """Copies the state_dict()."""
        self._saved = self.value.state_dict()

    def restore(self) -> None:
        """Loads the copy, and divides the rest of its epoch."""
        self.value.load_state_dict(self._saved)

    def receive(self) -> None:
        """Loads the root's, and divides the rest of its epoch."""
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), self.root_rank))

    def reset(self) -> None:
        """Divides the rest of the epoch between the ranks that there are now."""
        self.value.reset()


_registry: List[Tuple[Any, Type[StateHandler]]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> List[Tuple[Any, Type[StateHandler]]]:
    """Pairs (class of a value, class of its handler). The first pair whose class the value has an instance of counts."""
    return _registry


def set_handler_registry(registry: List[Tuple[Any, Type[StateHandler]]]) -> None:
    """Replaces the registry, for states that are made from then on."""
    global _registry
    _registry = registry
