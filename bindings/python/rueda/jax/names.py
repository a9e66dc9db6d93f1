"""Names of operations, made when a program is traced.

XLA keeps no order between operations that do not depend on each other, so the order of calls cannot tell which
operations of the ranks belong together. A name does. An operation that the caller does not name is called after the
line of the program that calls it.
"""

import collections
import os
import sys
import weakref
from typing import Any, Counter, Dict, List, Optional, Sequence, Tuple

from rueda.jax import versions

_LIBRARIES = ("rueda", "jax", "jaxlib", "optax", "flax", "contextlib")

# The names that each program has used, by the identity of the object that stands for it: in older versions of JAX the
# objects of different programs are equal.
_used: Dict[int, Tuple[Any, Counter[str]]] = {}


def _line() -> str:
    """The file and line of the program that calls, such as "train.py:31"."""
    frame: Optional[Any] = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES:
        frame = frame.f_back
    return "?" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def _names_of_program(arrays: Sequence[Any]) -> "Counter[str]":
    """The names that the program which is being traced has used so far, with their numbers."""
    program = versions.program_of(arrays)
    if program is None:
        return collections.Counter()
    key = id(program)
    if key not in _used:
        try:
            _used[key] = weakref.ref(program, lambda _: _used.pop(key, None)), collections.Counter()
        except TypeError:  # this version's object cannot be referred to weakly
            return collections.Counter()
    return _used[key][1]


def checked(name: Any) -> str:
    """The name as text. Raises ValueError if it is empty, longer than 1024 bytes, or holds a line break or NUL."""
    text = str(name)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError(f"name={text!r:.60}: UTF-8 cannot encode it") from None
    if not 0 < size <= 1024 or "\n" in text or "\0" in text:
        raise ValueError(f"name={text!r:.60}: give 1 to 1024 bytes of UTF-8 without line breaks and NUL")
    return text


def reserve(kind: str, names: Optional[Sequence[Any]], arrays: Sequence[Any], traced: bool) -> List[str]:
    """The names of an operation on these arrays.

    names: as the caller gives them; None makes one for each array from the line of the call. Raises ValueError if the
    program that is being traced has used one of them: which of the two operations comes first would be XLA's choice,
    and may differ between ranks.
    """
    used = _names_of_program(arrays) if traced else collections.Counter()
    if names is None:
        base = f"{kind}.{_line()}"
        number = used[base]
        used[base] += 1
        base = base if number == 0 else f"{base}.{number}"
        return [base] if len(arrays) == 1 else [f"{base}.{index}" for index in range(len(arrays))]
    wanted = [checked(name) for name in names]
    counted = collections.Counter(wanted)
    for name in wanted:
        if used[name] or counted[name] > 1:
            raise ValueError(f"name={name!r}: this program has an operation of that name already; give each one a name of its own")
    used.update(wanted)
    return wanted
