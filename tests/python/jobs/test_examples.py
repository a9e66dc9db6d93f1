"""The examples train, and all ranks end with the same parameters."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch
from conftest import HVDRUN, Ended

ROOT = pathlib.Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "torch"
COMPARISON = ROOT / "benchmarks" / "torch_compare.py"


def run(program, *flags, ranks=2):
    command = [HVDRUN, "-np", str(ranks), sys.executable, str(EXAMPLES / program), *map(str, flags)]  # absolute ones stay
    surroundings = dict(os.environ, OMP_NUM_THREADS="1", RUEDA_TIMEOUT_SECONDS="120")
    job = Ended(subprocess.run(command, capture_output=True, text=True, timeout=240, env=surroundings))
    assert job.code == 0, job.err
    return job


def parameters(job, rank):
    """The sum of a rank's parameters, as it printed it."""
    return re.search(r"parameters (\S+)$", job.lines(rank)[-1]).group(1)


def losses(job):
    return [float(loss) for loss in re.findall(r"loss (\S+)$", job.out, re.M)]


def test_digits_are_learnt_and_training_goes_on_from_a_checkpoint(tmp_path):
    checkpoint = tmp_path / "digits.pt"
    flags = ["--checkpoint", checkpoint, "--fp16", "--accumulate", 2]
    first = run("train_digits.py", "--epochs", 1, *flags)
    assert len(losses(first)) == 1 and checkpoint.exists()
    second = run("train_digits.py", "--epochs", 12, *flags)
    assert len(losses(second)) == 11, "the first epoch is not run again"
    assert parameters(second, 0) == parameters(second, 1)
    assert float(re.search(r"accuracy (\S+),", second.lines(0)[-1]).group(1)) > 0.9


def test_a_rank_that_is_killed_while_it_saves_leaves_the_old_checkpoint(tmp_path, run_script):
    job = run_script(f"""
import os, signal, sys
sys.path.insert(0, {str(EXAMPLES)!r})
from train_digits import save
hvd.init()
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
save("digits.pt", model, optimizer, 3)
def write_half(state, path):
    with open(path, "wb") as file:
        file.write(b"half of it")
    os.kill(os.getpid(), signal.SIGKILL)
torch.save = write_half
save("digits.pt", model, optimizer, 4)
hvd.barrier()
""")
    assert job.code != 0 and (tmp_path / "digits.pt.new").exists()
    assert torch.load(tmp_path / "digits.pt")["epoch"] == 3


def test_resnet18_trains(tmp_path):
    small = ["--steps", 3, "--batch", 2, "--width", 8, "--accumulate", 2, "--checkpoint", tmp_path / "resnet.pt"]
    job = run("train_resnet18.py", "--sync-norm", "--fp16", *small)
    assert len(losses(job)) == 3 and (tmp_path / "resnet.pt").exists()
    assert parameters(job, 0) == parameters(job, 1)


def test_the_language_model_learns_and_goes_on_from_a_checkpoint(tmp_path):
    small = ["--width", 32, "--layers", 1, "--batch", 4, "--length", 32, "--checkpoint", tmp_path / "model.pt", "--accumulate", 2]
    first = run("train_language_model.py", "--steps", 30, *small, ranks=1)
    second = run("train_language_model.py", "--steps", 60, "--fp16", *small)
    assert parameters(second, 0) == parameters(second, 1)
    assert losses(second)[-1] < losses(first)[0] - 0.5


def test_the_synthetic_benchmark_reports_in_the_usual_form():
    small = ["--width", 4, "--batch-size", 2, "--num-warmup-batches", 1, "--num-batches-per-iter", 1, "--num-iters", 2]
    lines = run("synthetic_benchmark.py", "--fp16-allreduce", *small).lines(0)
    assert re.fullmatch(r"Iter #1: [\d.]+ img/sec per rank", lines[-3])
    assert re.fullmatch(r"Img/sec per rank: [\d.]+ \+-[\d.]+", lines[-2])
    assert re.fullmatch(r"Total img/sec on 2 rank\(s\): [\d.]+ \+-[\d.]+", lines[-1])


@pytest.mark.long
@pytest.mark.skipif(not hasattr(torch, "_is_device_backend_autoload_enabled"), reason="torch.distributed does not find the backend")
def test_the_comparison_with_pytorch_prints_ratios_and_serves_horovod_too():
    small = ["--shrink", "64", "--rounds", "1", "--seconds", "0.001"]
    done = subprocess.run([sys.executable, str(COMPARISON), *small], capture_output=True, text=True, timeout=240)
    for peer, rows in [("Rueda, DistributedOptimizer", 2), ("DDP over rueda", 2), ("FSDP over rueda", 1), ("FSDP over gloo", 1)]:
        assert len(re.findall(rf"^{peer} .*x", done.stdout, re.M)) == rows, done.stdout + done.stderr
    job = run(COMPARISON, "--rank-of", "horovod.torch", *small, ranks=1)
    assert '"gradients": {"Horovod": [' in job.lines(0)[-1]


def test_numpy_s_digits_are_learnt_with_a_falling_loss():
    job = run("../numpy/train_digits.py")
    assert losses(job)[-1] < losses(job)[0]
    assert float(re.search(r"2 ranks, accuracy (\S+)$", job.lines(0)[-1]).group(1)) > 0.9


def test_the_code_in_numpy_s_page_runs():
    page = (ROOT / "docs" / "guide" / "numpy.md").read_text(encoding="utf-8")
    (piece,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    script = piece + "assert mean.tolist() == [1, 1, 1] and rows.shape == (3, 2) and total.tolist() == [2, 2, 2]\n"
    done = subprocess.run([HVDRUN, "-np", "2", sys.executable, "-c", script], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
