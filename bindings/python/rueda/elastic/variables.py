"""States of the frameworks that keep a model in variables: they are copied and sent through host memory."""

import functools
from typing import Any, Callable, Dict, List

import numpy

import rueda.numpy as arrays
from rueda import plans
from rueda.elastic.loop import run
from rueda.elastic.parts import Part, kind_of, require_alike
from rueda.elastic.state import ObjectState
from rueda.errors import CollectiveError, HostsUpdatedInterrupt, PeerLostError
from rueda.objects import broadcast_object
from rueda.session import current, rank


class VariablesState(ObjectState):
    """Variables and plain objects. A subclass says how to read and write the variables, always in the same order."""

    def __init__(self, **kwargs: Any):
        self._saved_values: List[numpy.ndarray] = []
        super().__init__(broadcast_object, rank, **kwargs)

    def read(self) -> List[numpy.ndarray]:
        """The present values of all variables. They may share memory with them."""
        raise NotImplementedError

    def write(self, values: List[numpy.ndarray]) -> None:
        """Sets all variables."""
        raise NotImplementedError

    def _variable_names(self) -> List[str]:
        """What errors call the variables, in the order of read()."""
        return [f"variable {number}" for number in range(len(self.read()))]

    def save(self) -> None:
        """Copies the variables and the plain values."""
        values = self._copies()
        self._saved_values = [numpy.array(value) for value in self.read()]
        self._keep_values(values)

    def _wants_sync(self) -> bool:
        return True  # among the variables are some that each rank has its own of, such as moving averages

    def sync(self) -> None:
        """Gives every rank the present variables and plain values of one rank, and saves them. Variables have the same types
        and shapes, in the same order, on all ranks: else all raise MismatchError, which names the first one that differs,
        and nothing is sent."""
        super().sync()

    def restore(self) -> None:
        """Sets the variables and the plain values to what save() has copied."""
        self.write(self._saved_values)
        super().restore()

    def _kept(self) -> Dict[str, Any]:
        return {**super()._kept(), "variables": self._saved_values, "variable_names": self._variable_names()}

    def _keep(self, contents: Dict[str, Any]) -> None:
        super()._keep(contents)
        theirs, ours = contents["variables"], self._saved_values
        names = self._variable_names()
        for name, one, other in zip(names, theirs, ours):
            if one.shape != other.shape:
                raise ValueError(f"its {name!r} has shape {list(one.shape)}, that of the state {list(other.shape)}")
        if len(theirs) != len(ours):
            first = names[len(theirs)] if len(theirs) < len(ours) else contents["variable_names"][len(ours)]
            raise ValueError(f"it {'lacks' if len(theirs) < len(ours) else 'also has'} {first!r}; it has {len(theirs)} variables, the state {len(ours)}")
        self._saved_values = contents["variables"]

    def _receive(self) -> None:
        values, names = self.read(), self._variable_names()
        # By their numbers: a process that has made other models before may have other names for the same variables.
        alike = require_alike([Part(number, name, kind_of(value.dtype, value.shape)) for number, (name, value) in enumerate(zip(names, values))])
        received = self._received()  # first, so that nothing has changed if a value cannot be sent
        space = current().next_call_space("elastic_variables", range(current().size))
        handles = [arrays.broadcast_async(value, self._standing.root, f"{space}{number}{f'.{name:.200}' if alike else ''}")
                   for number, (name, value) in enumerate(zip(names, values))]  # fmt: skip
        self.write([handle.wait() for handle in handles])
        self._take(received)


def run_framework(func: Callable[..., Any], lost: Callable[[Exception], bool]) -> Callable[..., Any]:
    """elastic.run() for a framework that raises errors of its own for collectives that fail inside of it.

    lost: whether an error is one of those. Every error counts as one if the plan is over: it is a consequence.
    """

    @functools.wraps(func)
    def translated(*args: Any, **kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except (CollectiveError, HostsUpdatedInterrupt):
            raise
        except Exception as error:
            if lost(error) or plans.is_over():
                raise PeerLostError(str(error)) from error
            raise

    return run(translated)
