"""How a TorchState saves, restores and sends the values that are more than plain objects."""

import copy
from typing import Any, Dict, List, Tuple, Type

import torch

from rueda.elastic.parts import kind_of
from rueda.elastic.state import require_names
from rueda.objects import broadcast_object
from rueda.process_sets import global_process_set
from rueda.session import rank
from rueda.torch.elastic.copies import Kept, copied
from rueda.torch.elastic.first_step import make_state
from rueda.torch.elastic.sampler import ElasticSampler
from rueda.torch.optimizer import _Distributed
from rueda.torch.state import broadcast_parameters, send_optimizer_state

_NEEDS_STEPS = "must define note(), is_unchanged() and rewind() for a state with step_mode=True"


class StateHandler:
    """Takes care of one value of a TorchState. A class of your own for another kind of value goes into the registry.

    value: the object itself. root_rank: the rank whose value sync() gives to all; TorchState sets it. While TorchState calls sync(),
    a broadcast from rank 0 sends this rank's value, so a class that knows no other root works as well.
    """

    root_rank = 0
    _is_large = False  # whether a rank at the root's commit calls receive_rest() and save_rest() instead of receive() and save()

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

    def parts(self) -> Dict[str, str]:
        """What must be the same on all ranks before sync(): a name and, in words, the kind of each part. TorchState compares
        them, and raises MismatchError. A class whose values may differ returns {}, as here."""
        return {}

    def kept(self) -> Any:
        """What save() has kept, for a commit on disk: anything that can be pickled. The next save() may overwrite it."""
        raise NotImplementedError(f"{type(self).__name__} must define kept() and keep() for a state with checkpoint=")

    def keep(self, saved: Any) -> None:
        """Has restore() set `saved`, which kept() has returned in an earlier job. Raises ValueError if it does not fit."""
        raise NotImplementedError(f"{type(self).__name__} must define kept() and keep() for a state with checkpoint=")

    def note(self) -> None:
        """Notes how the value is, between two steps of a state with step_mode=True. Called after each step, so it should be
        cheap."""
        raise NotImplementedError(f"{type(self).__name__} {_NEEDS_STEPS}")

    def is_unchanged(self) -> bool:
        """Whether rewind() can bring the value back to how it was at note()."""
        raise NotImplementedError(f"{type(self).__name__} {_NEEDS_STEPS}")

    def rewind(self) -> None:
        """Brings the value back to how it was at note(), if is_unchanged()."""
        raise NotImplementedError(f"{type(self).__name__} {_NEEDS_STEPS}")

    def save_noted(self) -> None:
        """Keeps a copy as save() does, but of what note() has noted. Called only if is_unchanged()."""
        self.save()

    def reset(self) -> None:
        """Called when this process has joined the next plan."""

    def set_value(self, value: Any) -> None:
        """Replaces the object, and saves what the new one holds."""
        before, self.value = self.value, value
        try:
            self.save()
        except Exception:
            self.value = before
            raise


def _kind(tensor: torch.Tensor) -> str:
    return kind_of(tensor.dtype, None if torch.nn.parameter.is_lazy(tensor) else tensor.shape)


class _OwnHandler(StateHandler):
    """A handler of this module: it saves when it is made."""

    _noted: Any = None
    _process_set = global_process_set  # of the ranks among which receive() sends

    def __init__(self, value: Any):
        super().__init__(value)
        self._kept = Kept()
        self.save()

    @property
    def _saved(self) -> Any:
        return self._kept.copy

    def is_as_saved(self) -> bool:
        """Whether nothing is known to have changed the value since it was last saved or restored, buffers apart."""
        return True

    def receive_among(self, receivers: Any, sender: int) -> None:
        """receive() from the sender among the ranks of a process set, then receive_rest() from the root. Every rank calls it."""
        if receivers.included():
            root, self._process_set, self.root_rank = self.root_rank, receivers, sender
            try:
                self._receive_common()
            finally:
                self._process_set, self.root_rank = global_process_set, root
        self.receive_rest()

    def _receive_common(self) -> None:
        """Takes from the root what ranks at one commit share."""
        self.receive()

    def receive_rest(self) -> None:
        """Takes from the root what ranks at one commit do not share. Every rank calls it."""

    def save_rest(self) -> None:
        """Keeps a copy of what receive_rest() takes."""

    def prepare(self) -> None:
        """Takes the memory that a new worker needs once it has received the value. Called while it waits outside of the job."""

    def sync(self) -> None:
        self.receive()
        self.save()

    def kept(self) -> Any:
        return self._saved

    def keep(self, saved: Any) -> None:
        self._kept.replace(saved)

    def set_value(self, value: Any) -> None:
        super().set_value(value)
        self._noted = None

    def is_unchanged(self) -> bool:
        return self._noted is not None


class _SmallHandler(_OwnHandler):
    """A handler of a value with a small state_dict(), which can be noted whole."""

    def save(self) -> None:
        """Copies the state_dict()."""
        self._kept.save(self.value.state_dict())

    def restore(self) -> None:
        """Loads the copy."""
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def receive(self) -> None:
        """Loads the root's."""
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), self.root_rank))

    def note(self) -> None:
        """Copies the state_dict()."""
        self._noted = copy.deepcopy(self.value.state_dict())

    def rewind(self) -> None:
        """Loads what was noted."""
        self.value.load_state_dict(copy.deepcopy(self._noted))

    def save_noted(self) -> None:
        """Keeps what was noted."""
        self._kept.save(self._noted)


class ModelStateHandler(_OwnHandler):
    """A torch.nn.Module: its state_dict()."""

    _is_large = True

    def save(self) -> None:
        """Copies the state_dict()."""
        self._kept.save(self.value.state_dict())
        self._versions_saved = self._versions()

    def restore(self) -> None:
        """Loads the copy. What the model may keep of it is copied once more."""
        loaded, keeps = copy.copy(self._saved), modules_with_extra(self.value) if _only_reads(self.value) else self._saved
        loaded.update({name: copy.deepcopy(each) for name, each in self._saved.items() if name in keeps})
        self.value.load_state_dict(loaded)
        self._versions_saved = self._versions()

    def is_as_saved(self) -> bool:
        """Whether nothing has changed a parameter since, as far as PyTorch counts."""
        return self._versions_saved == self._versions()

    def keep(self, saved: Any) -> None:
        """Raises ValueError, which names the parameter or buffer, if the model is another one."""
        require_names("parameters and buffers", saved, self._saved)
        extra = modules_with_extra(self.value)
        for name, ours in self._saved.items():
            if name in extra:
                continue
            shapes = [list(each.shape) if isinstance(each, torch.Tensor) else None for each in (saved[name], ours)]
            if shapes[0] != shapes[1]:
                raise ValueError(f"its {name!r} has shape {shapes[0]}, that of the model {shapes[1]}")
        super().keep(saved)

    def parts(self) -> Dict[str, str]:
        """Parameters and buffers, and the names of extra state, which may have any value."""
        extra = modules_with_extra(self.value)
        return {name: "extra state" if name in extra else _kind(each) for name, each in self.value.state_dict().items()
                if name in extra or isinstance(each, torch.Tensor)}

    def receive(self) -> None:
        """Overwrites parameters and buffers with the root's, and sets its extra state."""
        extra = modules_with_extra(self.value)
        broadcast_parameters({name: each for name, each in self.value.state_dict().items() if name not in extra}, self.root_rank, self._process_set)
        self._receive_extra(self._process_set)

    def _receive_common(self) -> None:
        """Overwrites the parameters with the root's."""
        rest = self._buffers()
        broadcast_parameters({name: each for name, each in self.value.state_dict().items() if name not in rest}, self.root_rank, self._process_set)

    def receive_rest(self) -> None:
        """Overwrites the buffers, such as running means, and the extra state: each rank has made its own."""
        extra = modules_with_extra(self.value)
        buffers = {name: each for name, each in self._buffers().items() if name not in extra}
        if buffers:
            broadcast_parameters(buffers, self.root_rank)
        self._receive_extra(global_process_set)

    def _receive_extra(self, process_set: Any) -> None:
        modules = modules_with_extra(self.value)
        if not modules:
            return
        received = broadcast_object({name: module.get_extra_state() for name, module in modules.items()}, self.root_rank, None, process_set)
        if rank() != self.root_rank:
            for name, module in modules.items():
                module.set_extra_state(received[name])

    def save_rest(self) -> None:
        """Copies the buffers."""
        self._saved.update(copy.deepcopy(self._buffers()))

    def _buffers(self) -> Dict[str, Any]:
        """What a state_dict() holds beside parameters."""
        parameters = {each.data_ptr() for each in self.value.parameters()}
        return {name: each for name, each in self.value.state_dict().items()
                if not isinstance(each, torch.Tensor) or each.data_ptr() not in parameters}

    def note(self) -> None:
        """Notes the version of each parameter, which every change raises."""
        self._noted = self._versions()

    def is_unchanged(self) -> bool:
        """Whether nothing has changed a parameter since."""
        return self._noted == self._versions()

    def rewind(self) -> None:
        """Does nothing: the parameters are as they were. Buffers stay as the forward pass has left them."""

    def _versions(self) -> List[Any]:
        there = (each for each in self.value.parameters() if not torch.nn.parameter.is_lazy(each))
        return [(each.data_ptr(), each._version) for each in there if not each.is_inference()]


def modules_with_extra(model: torch.nn.Module) -> Dict[str, torch.nn.Module]:
    """The modules of a model that have extra state, by its names in the state_dict()."""
    return {f"{name}._extra_state".lstrip("."): module for name, module in model.named_modules()
            if type(module).get_extra_state is not torch.nn.Module.get_extra_state}


def _only_reads(model: torch.nn.Module) -> bool:
    """Whether load_state_dict() only reads the tensors that it is given: neither the model nor a hook has its own way of loading."""
    return type(model).load_state_dict is torch.nn.Module.load_state_dict and not any(each._load_state_dict_pre_hooks for each in model.modules())


class OptimizerStateHandler(_OwnHandler):
    """An optimizer, distributed or not: its state_dict(). What a distributed one has left of a step that failed is
    dropped."""

    _is_large = True

    def save(self) -> None:
        """Copies the state_dict()."""
        self._kept.save(self.value.state_dict())
        self._begun_saved = getattr(self.value, "_begun", 0)

    def restore(self) -> None:
        """Loads the copy into the tensors that the state has, with nothing left of a step."""
        self._drop_step()
        self.value.load_state_dict(copied(self._saved, self.value.state_dict()))  # it keeps the tensors that it is given
        self._begun_saved = getattr(self.value, "_begun", 0)

    def is_as_saved(self) -> bool:
        """Whether no step has begun since."""
        return self._begun_saved == getattr(self.value, "_begun", 0)

    def parts(self) -> Dict[str, str]:
        """The parameters of its groups, and no state: a new rank has none."""
        groups = [group["params"] for group in self.value.param_groups]
        return {f"param_groups[{number}].params[{index}]": _kind(each) for number, group in enumerate(groups) for index, each in enumerate(group)}

    def prepare(self) -> None:
        """Makes and keeps the state of a first step, unless a warm-up has. The root's overwrites it, in the same memory."""
        make_state(self.value)
        self.save()

    def receive(self) -> None:
        """Overwrites the state and the options with the root's. Gradients are those of no step on any rank, so they stay."""
        send_optimizer_state(self.value, self.root_rank, self._process_set)

    def note(self) -> None:
        """Notes how many steps were begun, and the options, such as learning rates."""
        self._noted = getattr(self.value, "_begun", 0), [copy.deepcopy(_options(group)) for group in self.value.param_groups]

    def is_unchanged(self) -> bool:
        """Whether no step has begun since."""
        return self._noted is not None and self._noted[0] == getattr(self.value, "_begun", 0)

    def rewind(self) -> None:
        """Sets the options to what they were."""
        for group, options in zip(self.value.param_groups, copy.deepcopy(self._noted[1])):
            for key, value in options.items():
                if isinstance(value, torch.Tensor) and isinstance(group.get(key), torch.Tensor):
                    group[key].copy_(value)  # a graph on a device may refer to it
                else:
                    group[key] = value

    def reset(self) -> None:
        """Drops what is left of a step, since its operations belong to the plan before."""
        self._drop_step()

    def _drop_step(self) -> None:
        reducer = self.value._reducer if isinstance(self.value, _Distributed) else None
        if reducer is not None:
            reducer.forget()
        self.value.zero_grad()


def _options(group: Dict[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in group.items() if key != "params"}


class SamplerStateHandler(_SmallHandler):
    """An ElasticSampler: the epoch, and how much of it is read. Loading divides the rest of its epoch."""

    def reset(self) -> None:
        """Divides the rest of the epoch between the ranks that there are now."""
        self.value.reset()


class ScalerStateHandler(_SmallHandler):
    """A GradScaler: the loss scale, and for how many steps it has grown. What it knows of a step that failed is
    dropped."""

    def restore(self) -> None:
        """Loads the copy."""
        super().restore()
        self.reset()

    def has_done(self, optimizer: Any) -> bool:
        """Whether it has stepped the optimizer, or skipped that, or knows nothing of gradients that it could step with."""
        known = self.value._per_optimizer_states.get(id(optimizer))
        return known is None or known["stage"].name != "UNSCALED"

    def reset(self) -> None:
        """Drops what it knows of a step: whether gradients were unscaled, and found finite."""
        self.value._per_optimizer_states.clear()


_registry: List[Tuple[Any, Type[StateHandler]]] = [
    (torch.nn.Module, ModelStateHandler), (torch.optim.Optimizer, OptimizerStateHandler), (ElasticSampler, SamplerStateHandler),
    (getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler), ScalerStateHandler),
]


def get_handler_registry() -> List[Tuple[Any, Type[StateHandler]]]:
    """Pairs (class of a value, class of its handler). The first pair whose class the value has an instance of counts."""
    return _registry


def set_handler_registry(registry: List[Tuple[Any, Type[StateHandler]]]) -> None:
    """Replaces the registry, for states that are made from then on."""
    global _registry
    _registry = registry
