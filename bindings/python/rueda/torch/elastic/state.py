"""The state of a training with PyTorch."""

import contextlib
import os
import types
from typing import Any, Dict, Iterator, List, Optional

import torch

from rueda.elastic.agreement import Standing
from rueda.elastic.parts import Part, require_alike
from rueda.elastic.state import ObjectState, require_names
from rueda.errors import HostsUpdatedInterrupt
from rueda.objects import broadcast_object
from rueda.operations import in_place_of_rank_0
from rueda.process_sets import ProcessSet, add_process_set, remove_process_set
from rueda.session import current_or_none, rank, size
from rueda.torch.elastic.copies import spread_over
from rueda.torch.elastic.first_step import drop_gradients, stepping_alone
from rueda.torch.elastic.handlers import ScalerStateHandler, StateHandler, get_handler_registry, modules_with_extra
from rueda.torch.elastic.step_mode import StepMode, require_known_steps


def _handler_of(value: Any) -> Optional[StateHandler]:
    return next((handler(value) for kind, handler in get_handler_registry() if isinstance(value, kind)), None)


def _settle() -> None:
    """Waits until devices have finished what was reduced. Raises HorovodInternalError if that failed."""
    here = current_or_none()
    if here is not None:
        here.kept.settle()


# Stands for the receivers if the sender is the only one, and so has nobody to send to.
_NOBODY: Any = types.SimpleNamespace(included=lambda: False)


@contextlib.contextmanager
def _set_of_receivers(standing: Standing) -> Iterator[Optional[ProcessSet]]:
    """The process set of the ranks that receive models and optimizers; None if all ranks do. Every rank calls this, so that all
    find out alike whether sets can be made."""
    if standing.receivers is not None and len(standing.receivers) == 1:
        yield _NOBODY
        return
    if standing.receivers is None or len(standing.receivers) == size():
        yield None
        return
    try:
        receivers = add_process_set(standing.receivers, "elastic.receivers")
    except ValueError:  # RUEDA_DYNAMIC_PROCESS_SETS=0
        standing.receivers = None
        yield None
        return
    yield receivers
    remove_process_set(receivers)  # not after an error: it ends the plan, and the set with it


def _free_cores(newcomers: int) -> int:
    """The cores that each of so many new ranks may use while the others wait for it. More than four do not copy faster."""
    return max(1, min(4, len(os.sched_getaffinity(0)) // max(1, newcomers)))


class TorchState(ObjectState):
    """Models, optimizers, samplers and plain objects, each under its keyword as an attribute.

    model, optimizer: also under other names, several of each. The other values are as in ObjectState. A model is copied
    and restored by its state_dict(), an optimizer likewise, and both are sent tensor by tensor. Assigning another model
    or optimizer to an attribute replaces and saves it. Saves at construction, so restore() before the first commit gives
    the initial state.

    step_mode: after a failure the training goes on with the present state of the rank that is furthest. No step copies
    models and optimizers. All ranks give it, or none. The plain values are copied after each step, so they should be
    small. Commits are optional, and count if the furthest rank is not between two steps. docs/guide/elastic-training.md
    has the rules.

    Raises ValueError, which names the keyword, if a plain value cannot be copied, and with step_mode if an optimizer is
    not distributed, or not over all ranks, or if there is none. checkpoint, checkpoint_every: commits on disk, with their
    errors, as in ObjectState.
    """

    _dump = staticmethod(torch.save)
    _steps: Optional[StepMode] = None

    def __init__(self, model: Any = None, optimizer: Any = None, *, step_mode: bool = False, checkpoint: Any = None,
                 checkpoint_every: int = 1, **kwargs: Any):
        handlers: Dict[str, StateHandler] = {}
        plain: Dict[str, Any] = {}
        for name, value in dict(model=model, optimizer=optimizer, **kwargs).items():
            handler = _handler_of(value)
            if handler is None:
                plain[name] = value
            else:
                handlers[name] = handler
        object.__setattr__(self, "_handlers", handlers)
        for name, handler in handlers.items():
            object.__setattr__(self, name, handler.value)
        super().__init__(broadcast_object, rank, checkpoint=checkpoint, checkpoint_every=checkpoint_every, **plain)
        if step_mode:
            object.__setattr__(self, "_steps", StepMode(self))

    @staticmethod
    def _load(file: Any) -> Any:
        return torch.load(file, map_location="cpu", weights_only=False)  # from where the tensors go to the model's devices

    def __setattr__(self, name: str, value: Any) -> None:
        handled = name in self._handlers
        if self._steps is not None:
            require_known_steps(name, value)
        if handled:
            self._handlers[name].set_value(value)
        elif name in self.__dict__.get("_names", ()):
            handler = _handler_of(value)  # of a model, say, that was None at first
            if handler is not None:
                self._handlers[name] = handler
                self._names.remove(name)
                self._saved_state.pop(name, None)
                handled = True
        object.__setattr__(self, name, value)
        if handled:
            self._standing.saves += 1  # which the other ranks may not have made
        if handled and self._steps is not None:
            self._steps.watch()

    def commit(self) -> None:
        """Saves the state, so that no failure takes it further back than here, then calls check_host_updates(), as in
        State. With step_mode a commit between the backward passes of a step is one of the step before."""
        self._pass_point()
        super().commit()

    def check_host_updates(self) -> None:
        """As in State. With step_mode it also says that all values of the state belong to the steps that were taken. An
        interrupt comes only once devices have finished what was reduced; HorovodInternalError, if that failed."""
        self._pass_point()
        try:
            super().check_host_updates()
        except HostsUpdatedInterrupt:
            _settle()
            raise

    def _pass_point(self) -> None:
        if self._steps is not None:
            self._steps.pass_point()

    def save(self) -> None:
        """Copies the state_dict() of models, optimizers and samplers, and the plain values. First waits until devices
        have finished what was reduced there. If that failed, it raises HorovodInternalError and keeps the copies that it
        has."""
        _settle()
        if self._steps is not None and self._steps.in_step() and self._steps.is_clean():
            for handler in self._handlers.values():
                handler.save_noted()
            self._saved_state = self._steps.noted_values()
        else:
            values = self._copies()
            for handler in self._handlers.values():
                handler.save()
            self._keep_values(values)
        self._standing.saved_at = self._standing.point

    def restore(self) -> None:
        """Puts the copies of save() back."""
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Gives every rank the present state of one rank, and saves it. The models and optimizers have the same
        parameters, with the same types and shapes, on all ranks: else all raise MismatchError, which names the first one
        that differs, and nothing is sent."""
        super().sync()

    def _kept(self) -> Dict[str, Any]:
        return {**super()._kept(), "handled": {name: handler.kept() for name, handler in self._handlers.items()}}

    def _keep(self, contents: Dict[str, Any]) -> None:
        super()._keep(contents)
        require_names("models, optimizers and samplers", contents["handled"], self._handlers)
        for name, handler in self._handlers.items():
            try:
                handler.keep(contents["handled"][name])
            except ValueError as error:
                raise ValueError(f"{name!r}: {error}") from error

    def _wants_sync(self) -> bool:
        # Each rank has buffers of its own, such as running means, and perhaps extra state.
        models = self._values_of(torch.nn.Module)
        own = any(next(model.buffers(), None) is not None or modules_with_extra(model) for model in models)
        return own or super()._wants_sync()

    def _is_at_commit(self) -> bool:
        large = [handler for handler in self._handlers.values() if handler._is_large]
        own = all(type(handler).__module__ == StateHandler.__module__ for handler in large)  # a class of the program's has no receive_rest()
        return bool(large) and own and all(handler.is_as_saved() for handler in large) and not super()._wants_sync()

    def _failed(self) -> None:
        if self._steps is None:
            self.restore()
        else:
            self._steps.leave()

    def _prepare(self) -> None:
        super()._prepare()
        for handler in self._handlers.values():
            if handler._is_large and type(handler).__module__ == StateHandler.__module__:
                handler.prepare()

    def _warm_up(self) -> None:
        with contextlib.ExitStack() as alone:
            for optimizer in self._values_of(torch.optim.Optimizer):
                alone.enter_context(stepping_alone(optimizer))
            super()._warm_up()
        optimized = set(self._optimized())
        models = self._values_of(torch.nn.Module)
        drop_gradients((each for model in models for each in model.parameters() if each not in optimized), ())
        for handler in self._handlers.values():
            if isinstance(handler, ScalerStateHandler):
                handler.reset()

    def _undo_warm_up(self) -> None:
        gradients = [(each, each.grad) for each in self._optimized()]
        super()._undo_warm_up()
        for parameter, gradient in gradients:  # stepping_alone() zeroes them, and their memory stays
            parameter.grad = gradient

    def _values_of(self, kind: Any) -> List[Any]:
        return [handler.value for handler in self._handlers.values() if isinstance(handler.value, kind)]

    def _optimized(self) -> Iterator[torch.Tensor]:
        """The parameters of the state's optimizers."""
        return (each for optimizer in self._values_of(torch.optim.Optimizer) for group in optimizer.param_groups for each in group["params"])

    def _interrupted(self) -> None:
        if self._steps is not None:
            self._steps.leave()

    def _agreed(self) -> None:
        if self._steps is not None:
            self._steps.prepare()

    def _begins(self) -> None:
        if self._steps is not None:
            self._steps.begin()

    def _parts(self) -> List[Part]:
        parts = []
        for name, handler in sorted(self._handlers.items()):
            parts.append(Part(name, name, f"handled by {type(handler).__name__}"))
            parts += [Part(f"{name}.{inner}", f"{name}.{inner}", kind) for inner, kind in handler.parts().items()]
        return parts

    def _receive(self) -> None:
        require_alike(self._parts())  # of all ranks, whoever receives them
        self._phases.end("compared")
        received = self._received()  # first, so that nothing has changed if a value cannot be sent
        self._phases.end("values received")
        with _set_of_receivers(self._standing) as receivers:
            for name in sorted(self._handlers):
                handler = self._handlers[name]
                handler.root_rank = self._standing.root
                if receivers is None or not handler._is_large:
                    with in_place_of_rank_0(handler.root_rank):  # a class of the program's may know no other root
                        handler.receive()
                else:
                    handler.receive_among(receivers, self._standing.sender)
                self._phases.end(f"{name} received")
        self._take(received)

    def _save_received(self) -> None:
        """Saves everything, or only what a rank at the root's commit has received: buffers, small and plain values."""
        if self._standing.receivers is None:
            return self.save()
        if not self._standing.shared:
            with spread_over(_free_cores(len(self._standing.receivers) - 1)):
                return self.save()
        _settle()
        values = self._copies()
        for handler in self._handlers.values():
            if handler._is_large:
                handler.save_rest()
            else:
                handler.save()
        self._keep_values(values)

    def reset(self) -> None:
        """Divides the data of samplers anew, and drops what optimizers have left of a step."""
        for handler in self._handlers.values():
            handler.reset()
