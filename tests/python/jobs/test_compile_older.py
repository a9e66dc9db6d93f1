"""torch.compile leaves Rueda's functions alone even if PyTorch has no mark for that."""

import subprocess
import sys

import pytest
import torch

SCRIPT = """
import sys, torch
real = torch._C._dynamo.eval_frame
torch._C._dynamo.eval_frame = None
import rueda.torch as hvd
torch._C._dynamo.eval_frame = real
assert "torch._dynamo" not in sys.modules
hvd.init()
tensor = torch.ones(2, requires_grad=True)
torch.compile(lambda t: hvd.allgather(hvd.allreduce(t * 2) + 1), backend="eager")(tensor).sum().backward()
print(tensor.grad.tolist())
"""


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="this PyTorch does not compile")
def test_a_pytorch_without_marks_for_code_does_the_same():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.stdout == "[2.0, 2.0]\n", done.stderr
