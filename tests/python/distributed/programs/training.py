"""Trains with DDP or FSDP over Rueda and over Gloo and compares the parameters. For several.py: training.py ddp|fsdp FOLDER

Gloo's group meets over a file in FOLDER: a second one would find what the first left in torchrun's store (PyTorch 2.13).
"""

import os
import sys

import torch
import torch.distributed as dist
from training_parts import make_model, wrapped

torch.set_num_threads(1)

# Models live to the end, which comes without destructors: one that holds the last reference to a Gloo group joins Gloo's
# threads with the GIL held, while one of those may be waiting for it (PyTorch 2.13; seen in one run of six).
kept = []


def train(kind, backend, **how):
    dist.init_process_group(backend, **how)
    model = wrapped(kind, make_model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(4, 8, generator=generator)).square().mean().backward()
        optimizer.step()
    full = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    result = [parameter.detach().clone() for parameter in full]
    kept.append(model)
    dist.destroy_process_group()
    return result


kind, folder = sys.argv[1:]
own = {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
ours, theirs = train(kind, "rueda"), train(kind, "gloo", init_method=f"file://{folder}/{kind}", **own)
assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(ours, theirs))
print("equal", flush=True)
