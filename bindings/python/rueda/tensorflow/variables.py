"""Variables that get the root's values."""

from typing import Any, List, Optional

from rueda import operations as common
from rueda.process_sets import ProcessSet, global_process_set
from rueda.tensorflow import calls
from rueda.tensorflow.library import tf
from rueda.tensorflow.traces import unique_name


def variable_name(variable: Any) -> str:
    """What users know a variable as: its path in the model if it has one."""
    return str(getattr(variable, "path", None) or getattr(variable, "name", "variable")).partition(":")[0]


def _broadcast_into(variables: List[Any], root_rank: int, name: str, process_set: ProcessSet) -> List[Any]:
    """Assigns the root's values, and returns what assign() returns. One group: a single round trip for a whole model."""
    values = [calls.dense(getattr(variable, "value", variable) if not isinstance(variable, tf.Variable) else variable) for variable in variables]
    base = unique_name(name)
    names = [f"{base}.{i}.{variable_name(variable)}" for i, variable in enumerate(variables)]
    received = calls.broadcast(values, names, common.root_of(root_rank), process_set)
    return [variable.assign(value) for variable, value in zip(variables, received)]


def broadcast_variables(variables: Any, root_rank: int, process_set: ProcessSet = global_process_set, inplace: bool = False) -> Any:
    """Overwrites the variables of every rank with the root's. All ranks give the same variables in the same order.

    variables: of TensorFlow or Keras. inplace: ignored. In a graph of a session it returns the op that does it.
    """
    del inplace
    variables = list(variables)
    if not variables:
        return tf.no_op() if not tf.executing_eagerly() else None
    assigned = _broadcast_into(variables, root_rank, "broadcast_variables", process_set)
    return None if tf.executing_eagerly() else tf.group(*[each for each in assigned if each is not None])


def broadcast_(variables: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Any]:
    """broadcast_variables() that returns the list of variables, or in a session's graph their new values."""
    variables = list(variables)
    assigned = _broadcast_into(variables, root_rank, name or "broadcast_", process_set) if variables else []
    return variables if tf.executing_eagerly() else assigned


def broadcast_global_variables(root_rank: int) -> Any:
    """broadcast_variables() of all global variables of a session's graph. Raises RuntimeError without a graph: eager
    variables belong to no collection."""
    if tf.executing_eagerly():
        raise RuntimeError("broadcast_global_variables() works in graphs of tf.compat.v1 only; use broadcast_variables(model.variables, root_rank)")
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Gives all ranks the root's variables as soon as a MonitoredSession has initialised or restored them."""

    def __init__(self, root_rank: int, device: str = ""):
        """device: ignored."""
        super().__init__()
        self.root_rank, self.device, self.bcast_op = root_rank, device, None

    def begin(self) -> None:
        """Adds the op to the graph."""
        if self.bcast_op is None or self.bcast_op.graph is not tf.compat.v1.get_default_graph():
            self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs the op."""
        session.run(self.bcast_op)
