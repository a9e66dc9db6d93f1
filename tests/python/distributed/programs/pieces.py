"""Runs one piece of code of a guide page and prints that it ended. Usage: torchrun ... pieces.py FILE NUMBER"""

import pathlib
import re
import sys

import torch

torch.set_num_threads(1)
text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
piece = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)[int(sys.argv[2])]
exec(compile(piece, sys.argv[1], "exec"), {"__name__": "__main__"})
print("ran", flush=True)
