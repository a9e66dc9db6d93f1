"""Checks of what callers give."""

import numbers
from typing import Any, Optional


def whole_number(what: str, value: Any, least: int, most: Optional[int] = None) -> int:
    """The value as an int. ValueError, which names `what`: it is no integer, of Python's or NumPy's, or out of range."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least or (most is not None and value > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{what} is {value!r}, a whole number {limits} is needed")
    return int(value)
