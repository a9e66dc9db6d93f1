"""Runs examples one after the other on two ranks. Usage: torchrun ... examples.py FOLDER KIND:BACKEND ..., KIND ddp or fsdp

Each trains two epochs and leaves FOLDER/KIND.BACKEND.pt. Over Rueda the second goes on from the checkpoint of the first, in
another group; Gloo's would meet what the first left in torchrun's store, and wait for ever (PyTorch 2.13).
"""

import importlib
import os
import pathlib
import sys

import torch

torch.set_num_threads(1)
sys.path.insert(0, str(pathlib.Path(__file__).parents[4] / "examples" / "torch"))
small = ["--images", "256", "--hidden", "32"]
kept = []  # models on Gloo live to the end, as training.py says
for name in sys.argv[2:]:
    kind, backend = name.split(":")
    program = importlib.import_module("train_" + kind)
    checkpoint = f"{sys.argv[1]}/{kind}.{backend}.pt"
    for epochs in ("2",) if backend == "gloo" else ("1", "2"):
        kept.append(program.main(["--backend", backend, "--epochs", epochs, "--checkpoint", checkpoint, *small]))
print("done", flush=True)
os._exit(0)
