"""Checks of arguments, and warnings about them."""

import numbers
import operator
import sys
import warnings
from typing import Any, List, Optional, Type

_OURS = ("rueda", "torch", "horovod")  # packages that call each other between the user's line and a warning


def warn_user(text: str, kind: Type[Warning]) -> None:
    """Warns with the file and line of the user's call, however many frames are in between."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level)


def whole_number(what: str, value: Any, least: int, most: Optional[int] = None) -> int:
    """The value as an int. Raises ValueError, which names `what`, if it is not an integer of Python or NumPy, or out of
    range."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least or (most is not None and value > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{what} is {value!r}; give a whole number {limits}")
    return int(value)


def splits_of(splits: Any, ranks: int) -> List[int]:
    """The numbers of rows for each rank as a list. Raises ValueError if it is not one integer for each of `ranks`."""
    counts = splits.tolist() if hasattr(splits, "tolist") else list(splits)
    try:
        counts = [operator.index(count) for count in counts]  # NumPy's as well
    except TypeError:
        counts = []
    if len(counts) != ranks:
        raise ValueError(f"splits={splits!r}: give {ranks} integers, one for each rank")
    return counts


def local_variables(layers: Any) -> List[Any]:
    """The trainable variables of a layer or of a list of layers. Raises ValueError for anything else, None apart."""
    layers = [] if layers is None else list(layers) if isinstance(layers, (list, tuple)) else [layers]
    for layer in layers:
        if not hasattr(layer, "trainable_variables"):
            raise ValueError(f"local_layers has a {type(layer).__name__}; give Keras layers")
    return [variable for layer in layers for variable in layer.trainable_variables]
