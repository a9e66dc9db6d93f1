"""What an operation needs to know of the graph in which it is traced: its name there, its epoch, and that it must run.

Ranks match operations by name. While TensorFlow traces a function, the name is fixed for all runs of the graph, so it
must be the same on all ranks, and no other operation of the trace may have it: both could be in flight at once. Without a
graph there is one operation at a time, and ranks match those without a name by their order.
"""

import collections
import re
import weakref
from typing import Any, Optional

from rueda.session import current_or_none
from rueda.tensorflow.library import ops, tf

_epochs: Any = weakref.WeakKeyDictionary()  # the name of the epoch's tensor in each graph
_names: Any = weakref.WeakKeyDictionary()  # how often each name was asked for, by the outermost graph of the trace

try:  # not part of TensorFlow's API: without it, XLA's own error is all that the user sees
    from tensorflow.python.ops import control_flow_util as _control_flow
except ImportError:
    _control_flow = None


def _is_function(graph: Any) -> bool:
    return hasattr(graph, "outer_graph")


def _outermost(graph: Any) -> Any:
    while _is_function(graph) and _is_function(graph.outer_graph):
        graph = graph.outer_graph
    return graph


def unique_name(name: str) -> str:
    """The name, with a number behind it if an operation of this trace has it already. Outside of a trace, the name."""
    if tf.executing_eagerly():
        return name
    used = _names.setdefault(_outermost(tf.compat.v1.get_default_graph()), collections.Counter())
    while True:
        number = used[name]
        used[name] += 1
        wanted = name if number == 0 else f"{name}_{number}"
        if wanted == name or used[wanted] == 0:
            used[wanted] += wanted != name
            return wanted


def operation_name(kind: str, tensor: Any, name: Optional[str], ignore_name_scope: bool = False) -> str:
    """The name of an operation: the user's, or in a trace one made from the kind of operation and the tensor's name. An
    operation outside of a trace without the user's name has none ("")."""
    if tf.executing_eagerly():
        return name or ""
    if name is None:
        return unique_name(kind + "." + re.sub(r":\d+$", "", str(getattr(tensor, "name", "tensor"))))
    scope = "" if ignore_name_scope else tf.compat.v1.get_default_graph().get_name_scope()
    return unique_name(f"{scope}/{name}" if scope else name)


def gradient_names(names: Any) -> Any:
    """The names of the operations that carry the gradients of operations with these names."""
    texts = [tf.compat.as_text(name) for name in names]
    return [unique_name(text + ".gradient") if text else "" for text in texts]


def epoch() -> Any:
    """The last input of a collective, which keeps TensorFlow from folding and merging it. One for each graph. Raises
    ValueError if a new worker calls it eagerly before its training."""
    if tf.executing_eagerly():
        here = current_or_none()
        if here is not None:
            here.require_part()  # in a graph the kernel refuses
        return tf.constant(0, tf.int64)
    graph = tf.compat.v1.get_default_graph()
    if _control_flow is not None and _control_flow.GraphOrParentsInXlaContext(graph):
        raise NotImplementedError("XLA cannot compile Rueda's operations: use jit_compile=False for this function or model, or call them outside of it")
    if graph not in _epochs:
        with tf.control_dependencies(None):
            _epochs[graph] = ops.rueda_epoch().name  # the tensor itself would keep its graph alive
    return graph.get_tensor_by_name(_epochs[graph])


def must_run(results: Any) -> None:
    """Makes the function that is being traced run the operation with these results, even if no one uses them: other ranks
    may use theirs, and need this rank."""
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    if graph is not None and _is_function(graph):
        graph.control_outputs.append((results[0] if isinstance(results, (list, tuple)) else results).op)
