"""Nested values with tensors in them, such as the parameters of a model."""

from typing import Any, Iterable, Iterator, Tuple


def named_tensors(kind: Any, prefix: str, value: Any) -> Iterator[Tuple[str, Any]]:
    """The tensors in nested dicts, lists, tuples and pairs (name, tensor), each with a unique name. kind: their class.

    Raises ValueError, which names the entry, for anything that is neither of these nor a number, a text or None.
    """
    if isinstance(value, kind):
        yield prefix, value
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from named_tensors(kind, f"{prefix}.{key}", entry)
    elif isinstance(value, (list, tuple)):
        for index, entry in enumerate(value):
            is_pair = isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str)
            yield from named_tensors(kind, f"{prefix}.{entry[0]}" if is_pair else f"{prefix}.{index}", entry[1] if is_pair else entry)
    elif value is not None and not isinstance(value, (int, float, str, bool)):
        what = "arrays" if kind.__name__ == "ndarray" else "tensors"
        raise ValueError(f"{prefix} is a {type(value).__name__}; only {what} in dicts, lists and tuples can be broadcast")


def nested(params: Any, examples: str) -> Any:
    """The parameters as a dict, list or tuple. Raises ValueError, with what to give instead, if they are something else."""
    if not isinstance(params, Iterable):
        raise ValueError(f"params is a {type(params).__name__}; give {examples}")
    return params if isinstance(params, (dict, list, tuple)) else list(params)
