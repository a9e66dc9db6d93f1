"""Runs the first piece of code of a guide page that imports a module, and prints that it ended. Usage: torchrun ... pieces.py FILE MODULE"""

import pathlib
import re
import sys

import torch

torch.set_num_threads(1)
text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
pieces = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
piece = next(piece for piece in pieces if re.search(rf"^(import|from) {re.escape(sys.argv[2])}\b", piece, re.M))
exec(compile(piece, sys.argv[1], "exec"), {"__name__": "__main__"})
print("ran", flush=True)
