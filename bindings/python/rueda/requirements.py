"""Imports the framework that a package needs, or says in one sentence that it is missing or too old."""

import importlib
import re
from typing import Any, Tuple


def require(package: str, framework: str, module: str, oldest: Tuple[int, int]) -> Any:
    """The imported module of a framework. package: the one of Rueda that needs it. module: its name for imports and for
    pip. oldest: its oldest version that will do.

    Raises ImportError if it cannot be imported, or if it is older.
    """
    wanted = f"{package} needs {framework} {oldest[0]}.{oldest[1]} or newer"
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{wanted}, which cannot be imported here: {error}; pip install {module}") from error
    version = str(getattr(found, "__version__", ""))
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is not None and (int(numbers[1]), int(numbers[2])) < oldest:
        raise ImportError(f"{wanted}, and {version} is installed: pip install --upgrade {module}")
    return found
