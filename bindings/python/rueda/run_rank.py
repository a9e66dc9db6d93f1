"""A rank that run() has started: calls the function in FOLDER/call. Usage: python -m rueda.run_rank FOLDER"""

import os
import pickle
import sys
import traceback
from multiprocessing import spawn
from typing import Any, Tuple

from rueda import launch


def _read_call(path: str) -> Tuple[Any, bool]:
    """The call, and whether its result is to be pickled by value, too."""
    with open(path, "rb") as file:
        process, by_value = pickle.load(file), pickle.load(file)
        launch.imports_main = True
        try:
            spawn.prepare(process)
        finally:
            launch.imports_main = False
        return pickle.load(file), by_value


def main(folder: str) -> None:
    failure = os.path.join(folder, f"failure.{os.environ['RUEDA_RANK']}")
    try:
        (func, args, kwargs), by_value = _read_call(os.path.join(folder, "call"))
        module = launch.pickler()[0] if by_value else pickle
        result = module.dumps(func(*args, **kwargs))
    except launch.CalledAgainError as error:
        with open(failure, "w", encoding="utf-8") as file:
            file.write(str(error))
        sys.exit(1)  # the sentence is the caller's to raise
    except BaseException:
        with open(failure, "w", encoding="utf-8") as file:
            file.write(traceback.format_exc())
        raise
    with open(os.path.join(folder, f"result.{os.environ['RUEDA_RANK']}"), "wb") as file:
        file.write(result)


if __name__ == "__main__":
    main(sys.argv[1])
