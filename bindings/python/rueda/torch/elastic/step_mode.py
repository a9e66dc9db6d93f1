"""Step mode: after a failure the present state of a rank counts, and nothing has been copied for it.

A *point* lies between two steps: the program has updated its parameters, and has set the state's values to match. Ranks
are compared by the steps before their last points, then by the points. Only these things end the time in which a rank is *clean*, that is, in which
its models and optimizers are still as they were at its last point:

    point --- backward, reductions --- step() updates --- values are set --- point
            clean                    |                 not clean           |

- a distributed optimizer of the state begins to update its parameters;
- the program changes parameters by other means.

A point is where commit() or check_host_updates() is called, but not between the backward passes of one step. The first
gradient after an update is a point, too, if all optimizers of the state have taken equally many steps since the last one. A
step that a GradScaler of the state has skipped counts as taken.

At a point the plain values and what belongs to it of samplers, loss scales and options of optimizers are noted. They are
small. A clean rank goes back to them, since the program may have changed them on the way to its next step.
"""

import functools
import warnings
import weakref
from typing import Any, Dict, List, Tuple

from rueda import session
from rueda.elastic.agreement import Standing
from rueda.elastic.state import copied
from rueda.errors import CollectiveError
from rueda.torch.elastic.handlers import ScalerStateHandler
from rueda.torch.optimizer import _Distributed


def require_known_steps(name: str, value: Any) -> None:
    """Raises ValueError, which names the entry, if it is an optimizer whose steps do not tell how far all ranks are."""
    if not hasattr(value, "param_groups"):
        return
    if not isinstance(value, _Distributed):
        raise ValueError(f"step_mode=True: {name!r} of the state is a {type(value).__name__} that DistributedOptimizer() has not made, so its steps "
                         "are not known; give the state the distributed optimizer")  # fmt: skip
    if value._reducer is None or value._reducer._set != 0:
        raise ValueError(f"step_mode=True: {name!r} of the state reduces gradients over a process set; only steps that all ranks take can be compared")


class StepMode:
    """The points of one state. One thread at a time uses it; PyTorch calls _first_gradient() on its own threads while the
    program's waits in backward()."""

    def __init__(self, state: Any):
        """Raises ValueError if the state has no optimizer, or one that is not distributed over all ranks."""
        self._state = weakref.proxy(state)
        self._training = False  # whether the program's function runs
        self._left_in_step = False  # whether it was last left where this rank was not clean
        self._values: Dict[str, Any] = {}
        self._steps_before = self._counted = 0  # steps of the training, and of the optimizers, when the function began to run
        for name, handler in state._handlers.items():
            require_known_steps(name, handler.value)
        if not self._optimizers():
            raise ValueError("step_mode=True: the state has no optimizer that DistributedOptimizer() has made; give it one, such as "
                             "TorchState(model, optimizer, step_mode=True)")  # fmt: skip
        state._standing.by_steps = True
        self._note()
        self.watch()

    @property
    def _standing(self) -> Standing:
        return self._state._standing

    def _optimizers(self) -> List[_Distributed]:
        return [handler.value for handler in self._state._handlers.values() if isinstance(handler.value, _Distributed)]

    def _count(self) -> int:
        """How many steps the optimizers have begun together, since they were made."""
        return sum(optimizer._begun for optimizer in self._optimizers())

    def watch(self) -> None:
        """Follows the steps of the state's optimizers, as they are now."""
        self._steps_before, self._counted = self._standing.point[0], self._count()
        mine = weakref.ref(self)
        for optimizer in self._optimizers():
            optimizer._stepped = functools.partial(_call, mine, StepMode._arm)
            optimizer._reducer._first = functools.partial(_call, mine, StepMode._first_gradient)

    def _arm(self, announces: int = 1) -> None:
        for optimizer in self._optimizers():
            optimizer._reducer.announces = announces

    def in_step(self) -> bool:
        """Whether gradients are on their way, or an optimizer updates its parameters."""
        return any(optimizer._inside or optimizer._reducer.in_step for optimizer in self._optimizers())

    def is_clean(self) -> bool:
        """Whether models and optimizers are as they were at the last point."""
        return all([handler.is_unchanged() for handler in self._state._handlers.values()])

    def pass_point(self) -> None:
        """Called when the program says that its values match its parameters."""
        if self._training and not self.in_step():
            self._standing.point = (self._steps_before + self._count() - self._counted, self._standing.point[1] + 1)
            self._note()

    def _first_gradient(self) -> None:
        """The program has begun its next step, so it has set its values. If one of several optimizers is still to step,
        nothing is known of them."""
        begun, reduced = self._counts()
        if len(begun) == len(self._begun) and (_is_one(begun, self._begun) or (self._scalers_have_done() and _is_one(reduced, self._reduced))):
            self.pass_point()

    def _counts(self) -> Tuple[List[int], List[int]]:
        """How many steps each optimizer has begun, and how often its gradients were reduced: more often, if a GradScaler has
        skipped steps."""
        optimizers = self._optimizers()
        return [each._begun for each in optimizers], [each._reduced for each in optimizers]

    def _scalers_have_done(self) -> bool:
        """Whether the state has scalers, and none of them is yet to step an optimizer whose gradients it knows."""
        scalers = [handler for handler in self._state._handlers.values() if isinstance(handler, ScalerStateHandler)]
        return bool(scalers) and all(scaler.has_done(optimizer) for scaler in scalers for optimizer in self._optimizers())

    def _note(self) -> None:
        self._arm(0)
        self._begun, self._reduced = self._counts()
        for handler in self._state._handlers.values():
            handler.note()
        self._values = {name: copied(name, getattr(self._state, name)) for name in self._state._names}

    def noted_values(self) -> Dict[str, Any]:
        """A copy of the plain values at the last point."""
        return {name: copied(name, value) for name, value in self._values.items()}

    def begin(self) -> None:
        """Called when all ranks have the same state, and the program's function is about to run."""
        self._training = True
        self._steps_before, self._counted = self._standing.point[0], self._count()
        self._note()

    def leave(self) -> None:
        """Called when the function has been left: goes back to the last point if this rank is clean. It passes no
        points until the function runs again."""
        if not self._training:
            if self._standing.clean:
                self._rewind()  # a reset callback may have changed options, and is about to do so again
            return
        self._training = False
        self._arm(0)
        self._standing.clean = self.is_clean() and _is_final()
        self._left_in_step = not self._standing.clean
        if self._standing.clean:
            self._rewind()

    def _rewind(self) -> None:
        """Goes back to the last point."""
        for handler in self._state._handlers.values():
            handler.rewind()
        for name, value in self.noted_values().items():
            setattr(self._state, name, value)

    def prepare(self) -> None:
        """Called when all ranks know whose state counts. A rank that is not as far as the root loses its own by the sync. If
        it is clean, it keeps a copy, because the root may die while it sends."""
        standing = self._standing
        if standing.restores and standing.shared:
            if self._left_in_step and self._state._rank() == 0:
                warnings.warn("the rank that is furthest was not between two steps, so all go back to the last commit; call "
                              "state.check_host_updates() right after optimizer.step() and what belongs to it, before other collectives", RuntimeWarning, stacklevel=2)  # fmt: skip
            self._state.restore()
            self._note()  # where this rank goes back to if the sync fails
            standing.point, standing.clean = standing.saved_at, True
        if standing.point != standing.point_of_root:
            if standing.shared and standing.clean and not standing.restores:
                self._state.save()
            standing.point, standing.clean = standing.point_of_root, False


def _is_one(now: List[int], before: List[int]) -> bool:
    """Whether all have grown by the same number, which is not 0."""
    grown = {one - other for one, other in zip(now, before)}
    return len(grown) == 1 and grown != {0}


def _is_final() -> bool:
    """Whether devices have finished everything that steps were made of. An operation that failed after its wait has left
    garbage, and perhaps a step has used it."""
    here = session.current_or_none()
    try:
        if here is not None:
            here.kept.settle()
    except CollectiveError:
        return False
    return True


def _call(mine: Any, method: Any) -> None:
    """Calls the method unless the state is gone."""
    here = mine()
    if here is not None:
        method(here)
