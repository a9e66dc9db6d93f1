"""The code in the guide runs, on two ranks."""

import pathlib
import re

import pytest
import torch

GUIDE = pathlib.Path(__file__).parents[3] / "docs" / "guide" / "pytorch.md"


@pytest.mark.skipif(not hasattr(torch.amp, "GradScaler"), reason="the guide speaks of a PyTorch with torch.amp.GradScaler")
def test_every_piece_of_code_in_the_guide_runs(run_script):
    pieces = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(pieces) >= 9
    job = run_script(f"""
for piece in {pieces!r}:
    exec(compile(piece, "docs/guide/pytorch.md", "exec"), {{"__name__": "__main__"}})
print("all ran")
""")
    assert job.code == 0, job.err
    assert job.lines(0) == job.lines(1) == ["all ran"]
