"""torch.distributed over the backend "rueda": collectives, DDP, FSDP, and what happens when a rank dies."""

import os
import pathlib
import socket
import subprocess
import sys

import pytest

PROGRAMS = pathlib.Path(__file__).parent / "programs"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def torchrun(program, *arguments, ranks=2, fails=False):
    """The output of a program of PROGRAMS on ranks that torchrun starts."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port", str(free_port())]
    surroundings = dict(os.environ, OMP_NUM_THREADS="1", RUEDA_TIMEOUT_SECONDS="120", PYTHONWARNINGS="ignore")
    done = subprocess.run([*command, str(PROGRAMS / program), *arguments], capture_output=True, text=True, timeout=240,
                          env=surroundings)  # fmt: skip
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout


def test_every_collective_gives_what_it_should_also_in_a_second_and_third_group():
    assert torchrun("collectives.py", "3").count("ok") == 2


def test_three_ranks_make_twenty_groups_one_after_the_other():
    assert torchrun("collectives.py", "20", "few", ranks=3).count("ok") == 3


@pytest.mark.parametrize("wrapper", ["ddp", "fsdp"])
def test_training_gives_the_parameters_that_gloo_gives(wrapper):
    output = torchrun("training.py", wrapper)
    assert output.count("equal") == 2, output


@pytest.mark.parametrize("wrapper", ["ddp", "fsdp"])
def test_survivors_of_a_killed_rank_get_an_exception_that_names_it(wrapper):
    output = torchrun("killed.py", wrapper, ranks=3, fails=True)
    assert output.count("survivor: rank 1 is named") == 2, output


def test_registration_is_quick_and_loads_nothing_of_rueda():
    text = """
import time, sys, torch, rueda.torch_backend
assert "rueda" in torch.distributed.Backend.backend_list
assert not any(name.startswith("rueda.") and name != "rueda.torch_backend" for name in sys.modules)
del torch.distributed.Backend.RUEDA
torch.distributed.Backend.backend_list.remove("rueda")
torch.distributed.Backend.backend_capability.pop("rueda", None)
rueda.torch_backend.register()
assert torch.distributed.Backend.RUEDA == "rueda"
print("registered")
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout == "registered\n", done.stderr
