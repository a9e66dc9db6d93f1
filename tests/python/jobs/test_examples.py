"""The examples train, and all ranks end with the same parameters."""

import os
import pathlib
import re
import subprocess
import sys

from conftest import HVDRUN, Ended

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples" / "torch"


def run(program, *flags, ranks=2):
    command = [HVDRUN, "-np", str(ranks), sys.executable, str(EXAMPLES / program), *map(str, flags)]
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


def test_resnet18_trains(tmp_path):
    small = ["--steps", 3, "--batch", 2, "--width", 8, "--accumulate", 2, "--checkpoint", tmp_path / "resnet.pt"]
    job = run("train_resnet18.py", "--sync-norm", "--fp16", *small)
    assert len(losses(job)) == 3 and (tmp_path / "resnet.pt").exists()
    assert parameters(job, 0) == parameters(job, 1)


def test_the_language_model_learns_and_goes_on_from_a_checkpoint(tmp_path):
    small = ["--width", 32, "--layers", 1, "--batch", 4, "--length", 32, "--checkpoint", tmp_path / "model.pt", "--accumulate", 2]
    first = run("train_language_model.py", "--steps", 30, *small)
    second = run("train_language_model.py", "--steps", 60, "--fp16", *small)
    assert parameters(second, 0) == parameters(second, 1)
    assert losses(second)[-1] < losses(first)[0] - 0.5


def test_the_synthetic_benchmark_reports_in_the_usual_form():
    small = ["--width", 4, "--batch-size", 2, "--num-warmup-batches", 1, "--num-batches-per-iter", 1, "--num-iters", 2]
    lines = run("synthetic_benchmark.py", "--fp16-allreduce", *small).lines(0)
    assert re.fullmatch(r"Iter #1: [\d.]+ img/sec per rank", lines[-3])
    assert re.fullmatch(r"Img/sec per rank: [\d.]+ \+-[\d.]+", lines[-2])
    assert re.fullmatch(r"Total img/sec on 2 rank\(s\): [\d.]+ \+-[\d.]+", lines[-1])
