"""Objects on all ranks. They are sent when the function is called, also while a graph is built."""

from typing import Any, Callable, List, Optional

from rueda import objects
from rueda.process_sets import ProcessSet, global_process_set


def broadcast_object(obj: Any, root_rank: int = 0, session: Any = None, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """Returns the root's object on every rank. session: ignored; no graph is needed.

    What may travel, and what is raised: as rueda.torch.broadcast_object() says.
    """
    return objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(root_rank: int = 0, session: Any = None, name: Optional[str] = None,
                        process_set: ProcessSet = global_process_set) -> Callable[[Any], Any]:
    """Returns broadcast_object() with these arguments, as a function of the object."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(obj: Any, session: Any = None, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> List[Any]:
    """Returns a list of every rank's object, in the order of ranks. session: ignored."""
    return objects.allgather_object(obj, name, process_set)
