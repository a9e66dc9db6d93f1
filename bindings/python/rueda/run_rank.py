"""A rank that run() has started: calls the function in FOLDER/call. Usage: python -m rueda.run_rank FOLDER"""

import os
import pickle
import sys
import traceback
from multiprocessing import spawn


def main(folder: str) -> None:
    rank = os.environ["RUEDA_RANK"]
    try:
        with open(os.path.join(folder, "call"), "rb") as file:
            spawn.prepare(pickle.load(file))
            func, args, kwargs = pickle.load(file)
        result = pickle.dumps(func(*args, **kwargs))
    except BaseException:
        with open(os.path.join(folder, f"failure.{rank}"), "w", encoding="utf-8") as file:
            file.write(traceback.format_exc())
        raise
    with open(os.path.join(folder, f"result.{rank}"), "wb") as file:
        file.write(result)


if __name__ == "__main__":
    main(sys.argv[1])
