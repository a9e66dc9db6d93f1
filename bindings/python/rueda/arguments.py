"""Checks of what callers give."""

import numbers
import sys
import warnings
from typing import Any, Optional, Type

_OURS = ("rueda", "torch", "horovod")  # packages, between whose functions a call may go to and fro


def warn_user(text: str, kind: Type[Warning]) -> None:
    """Warns at the line of the user's that led here, however deep that is."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level)


def whole_number(what: str, value: Any, least: int, most: Optional[int] = None) -> int:
    """The value as an int. ValueError, which names `what`: it is no integer, of Python's or NumPy's, or out of range."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least or (most is not None and value > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{what} is {value!r}, a whole number {limits} is needed")
    return int(value)
