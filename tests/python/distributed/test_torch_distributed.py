"""torch.distributed over the backend "rueda": collectives, DDP, FSDP, and what happens when a rank dies."""

import importlib.util
import os
import pathlib
import random
import re
import shlex
import socket
import subprocess
import sys

import pytest
import torch

import rueda

HVDRUN = os.path.join(os.path.dirname(rueda.__file__), "bin", "hvdrun")
ROOT = pathlib.Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "guide" / "torch-distributed.md"
PROGRAMS = pathlib.Path(__file__).parent / "programs"
pytestmark = pytest.mark.skipif(not hasattr(torch, "_is_device_backend_autoload_enabled"),
                                reason=f"PyTorch {torch.__version__} does not find backends of packages by itself")  # fmt: skip


def free_port():
    """Returns a port for torchrun's store; the next one, which Rueda's takes, is free, too. Both lie below the ports that the
    kernel gives to connections, so no other test's connection takes one of them meanwhile."""
    for port in random.sample(range(20000, 32000, 2), 1000):
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
                return port
            except OSError:
                continue
    raise AssertionError("no two free ports between 20000 and 32000")


def torchrun(program, *arguments, **how):
    """The output of a program of PROGRAMS on ranks that torchrun starts."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--master-port", str(free_port()), "--nproc-per-node"]
    return launch(launcher, [], program, *arguments, **how)


def restarting_torchrun(program, *arguments, **how):
    """torchrun() that starts all ranks again, at most twice, after one has failed."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "2", "--nproc-per-node"]
    return launch(launcher, [], program, *arguments, **how)


def hvdrun(program, *arguments, **how):
    """The same with hvdrun."""
    return launch([HVDRUN, "-np"], [sys.executable], program, *arguments, **how)


def launch(launcher, interpreter, program, *arguments, ranks=2, fails=False, folder=None):
    command = [*launcher, str(ranks), *interpreter]
    surroundings = dict(os.environ, OMP_NUM_THREADS="1", RUEDA_TIMEOUT_SECONDS="120", PYTHONWARNINGS="ignore")
    done = subprocess.run([*command, str(PROGRAMS / program), *arguments], capture_output=True, text=True, timeout=240,
                          env=surroundings, cwd=folder)  # fmt: skip
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """How many of two ranks have run a program to its end; all of them run in one job of torchrun's."""
    folder = tmp_path_factory.mktemp("together")
    training = [shlex.join(["training.py", wrapper, str(folder)]) for wrapper in ("ddp", "fsdp")]
    piece = shlex.join(["pieces.py", str(GUIDE), "torch"])
    programs = ["collectives.py 3", *training, "hooks.py", "refusals.py", "data_parallel.py", "parallelism.py", "staging.py", "buckets.py", "averages.py", piece]
    output = torchrun("several.py", *programs, folder=folder)

    def count(program):
        found = len(re.findall(f"{program}[^:\n]*: ended", output))  # lines of two ranks may run into each other
        assert found == 2, output
        return found

    return count


def test_every_collective_gives_what_it_should_also_in_a_second_and_third_group(ended):
    assert ended("collectives.py") == 2


def test_a_script_of_the_hvd_dialect_runs_under_torchrun():
    assert sorted(torchrun("dialect.py", ranks=3).split()) == ["rank0of3:3", "rank1of3:3", "rank2of3:3"]


@pytest.mark.long
def test_three_ranks_make_twenty_groups_one_after_the_other():
    assert torchrun("collectives.py", "20", "few", ranks=3).count("ok") == 3


@pytest.mark.long
def test_a_group_follows_another_at_once_under_hvdrun_and_by_hand():
    assert hvdrun("rounds.py", ranks=3).count("ok") == 3
    here = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, str(PROGRAMS / "rounds.py")]
    ranks = [subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ, OMP_NUM_THREADS="1", RANK=str(rank), **here))
             for rank in range(2)]  # fmt: skip
    assert [rank.communicate(timeout=240)[0] for rank in ranks] == [b"ok\n"] * 2


@pytest.mark.parametrize("wrapper", ["ddp", "fsdp"])
def test_training_gives_the_parameters_that_gloo_gives(ended, wrapper):
    assert ended("training.py " + wrapper) == 2


def test_data_parallel_wrappers_give_what_one_process_gives_whatever_they_are_told(ended):
    assert ended("data_parallel.py") == 2


def test_staging_buffers_of_the_group_give_the_same_parameters_and_are_used_where_they_lie(ended):
    assert ended("staging.py") == 2


def test_buckets_whose_gradients_are_views_move_into_shared_memory_and_no_others(ended):
    assert ended("buckets.py") == 2


def test_averages_are_made_while_gradients_are_summed_unless_a_program_has_a_hook(ended):
    assert ended("averages.py") == 2


def test_optimizers_tensors_and_models_in_parts_and_compiled_ones_give_what_one_process_gives(ended):
    assert ended("parallelism.py") == 2


def test_collectives_in_callbacks_meet_those_of_the_same_place_in_whatever_order_they_begin(ended):
    assert ended("hooks.py") == 2
    assert torchrun("hooks.py", ranks=3).count("ok") == 3


def test_what_one_rank_alone_is_refused_shifts_nothing_and_what_has_no_numbers_is_refused_for_its_device(ended):
    assert ended("refusals.py") == 2


def test_ranks_meet_again_after_restarts_and_a_killed_training_goes_on_from_its_checkpoint(tmp_path):
    output = restarting_torchrun("resumed.py", str(tmp_path))
    epochs = re.findall(r"attempt \d: epoch \d", output)
    assert epochs == [f"attempt {life}: epoch {epoch}" for life, epoch in [(1, 0), (1, 1), (1, 2), (2, 2), (2, 3)]], output
    assert output.count("same parameters") == 2, output  # a line of the other rank may end in mid-line here


@pytest.mark.parametrize("launcher, wrapper", [
    pytest.param(torchrun, "ddp", marks=pytest.mark.long, id="torchrun, ddp"), pytest.param(hvdrun, "fsdp", id="hvdrun, fsdp"),
])  # fmt: skip
def test_survivors_of_a_killed_rank_get_an_exception_that_names_it(launcher, wrapper):
    output = launcher("killed.py", wrapper, ranks=3, fails=True)
    assert output.count("survivor: rank 1 is named") == 2, output


def test_the_examples_train_as_over_gloo_under_torchrun_and_under_hvdrun(tmp_path):
    launchers = {"torchrun": (torchrun, "ddp:gloo"), "hvdrun": (hvdrun, "fsdp:gloo")}
    for name, (launcher, theirs) in launchers.items():
        (tmp_path / name).mkdir()
        assert launcher("examples.py", str(tmp_path / name), "ddp:rueda", "fsdp:rueda", theirs).count("done") == 2
    for kind, launcher in [("ddp", "torchrun"), ("fsdp", "hvdrun")]:
        gloo = torch.load(tmp_path / launcher / f"{kind}.gloo.pt")["model"]
        for name in launchers:
            ours = torch.load(tmp_path / name / f"{kind}.rueda.pt")["model"]
            for key, value in gloo.items():
                torch.testing.assert_close(ours[key], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backends, ours", [
    pytest.param("cpu:gloo,cuda:rueda", "theirs", marks=pytest.mark.long), ("cpu:rueda,cuda:gloo", "ours"),
])
def test_a_group_of_two_backends_hands_tensors_to_the_one_of_their_device(backends, ours):
    assert torchrun("two_backends.py", backends, "cpu", ours, ranks=3).count("ok") == 3


def test_a_backend_that_rueda_cannot_make_is_refused_in_words():
    import torch.distributed as dist

    with pytest.raises(ValueError, match="cpu:rueda,cuda:ucc.*give cuda:ucc before the device of Rueda's"):
        dist.init_process_group("cpu:rueda,cuda:ucc", rank=0, world_size=1, store=dist.HashStore())
    assert not dist.is_initialized() and not rueda.is_initialized()


@pytest.mark.parametrize("module", ["torch", pytest.param("lightning", marks=pytest.mark.long), pytest.param("accelerate", marks=pytest.mark.long)])
def test_the_code_in_the_guide_runs(ended, module, tmp_path):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: pip install {module}")
    # Lightning makes folders in the working folder. The two large ones run under one launcher each.
    launch = torchrun if module == "accelerate" else hvdrun
    assert launch("pieces.py", str(GUIDE), module, folder=tmp_path).count("ran") == 2
    if module == "torch":
        assert ended("pieces.py") == 2


def test_importing_torch_registers_the_backend_and_loads_nothing_else_of_rueda():
    text = """
import sys, torch
assert torch.distributed.Backend.RUEDA == "rueda" and "rueda" in torch.distributed.Backend.backend_list
loaded = {name for name in sys.modules if name.split(".")[0] == "rueda"}
assert loaded == {"rueda", "rueda.torch_backend"}, loaded
assert not any("librueda" in line for line in open("/proc/self/maps"))
import rueda.torch_backend
rueda.torch_backend.register()  # does nothing: it is there
import rueda.torch
assert any("librueda" in line for line in open("/proc/self/maps")), "a search in the maps says nothing"
assert not rueda.is_initialized()
print("registered")
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout == "registered\n", done.stderr


def test_the_cost_of_registration_can_be_measured():
    command = [sys.executable, str(ROOT / "benchmarks" / "registration_cost.py"), "--turns", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert re.fullmatch(r"find +median +[\d.]+ ms, .*\nregister +median +[\d.]+ ms, .*\n", done.stdout), done.stdout + done.stderr
