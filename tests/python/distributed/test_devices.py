"""Tensors and models on a device that is not the host: a stand-in that behaves like a GPU as far as mistakes would show.
Rueda copies its tensors to the host, or its CUDA plug-in uses them where they lie, through the host or by a stand-in for NCCL."""

import pathlib
import sys

import pytest
import torch
from test_interrupts import interrupt_a_wait
from test_torch_distributed import PROGRAMS, hvdrun, torchrun

import rueda

LIBRARIES = pathlib.Path(rueda.__file__).parents[2] / "cuda"  # the stand-ins of the build

pytestmark = pytest.mark.skipif(not hasattr(torch, "_is_device_backend_autoload_enabled"),
                                reason=f"PyTorch {torch.__version__} knows no accelerators of that kind")  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def stand_in(tmp_path_factory):
    """Ranks find the device, compiled."""
    folder = tmp_path_factory.mktemp("stand_in_device")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PROGRAMS))
        import stand_in_device

        patch.setenv("STAND_IN_DEVICE", str(stand_in_device.build(folder)))
        yield
    sys.modules.pop("stand_in_device")


@pytest.fixture(params=["staged", "nccl"])
def reached(request, monkeypatch):
    """The plug-in reaches the device; streams take up to 0.2 ms for each piece of their work."""
    if not (LIBRARIES / "libcuda.so.1").exists():
        pytest.skip("this build has no CUDA plug-in")
    settings = {"RUEDA_CUDA_LIBRARY": LIBRARIES / "libcuda.so.1", "RUEDA_NCCL_LIBRARY": LIBRARIES / "libnccl.so.2",
                "RUEDA_NCCL": int(request.param == "nccl"), "STANDIN_CUDA_DEVICES": 4, "STANDIN_CUDA_DELAY_US": 200}  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(name, str(value))
    return request.param


def test_collectives_of_both_dialects_reach_its_tensors():
    assert torchrun("devices.py", ranks=3).count("ok") == 3


@pytest.mark.parametrize("reached", ["nccl", pytest.param("staged", marks=pytest.mark.long)], indirect=True)
def test_collectives_of_both_dialects_use_tensors_where_they_lie(reached, monkeypatch):
    monkeypatch.setenv("RUEDA_DETERMINISTIC", str(int(reached == "nccl")))
    assert torchrun("devices.py", ranks=3).count("ok") == 3


@pytest.mark.parametrize("reached", ["nccl", pytest.param("staged", marks=pytest.mark.long)], indirect=True)
def test_all_other_functions_work_there_and_works_and_sets_keep_their_promises(reached):
    assert torchrun("device_functions.py", ranks=2).count("ok") == 2


@pytest.mark.parametrize("reached", ["nccl"], indirect=True)
@pytest.mark.parametrize("backends", [pytest.param("cpu:gloo,standin:rueda", marks=pytest.mark.long), "standin:rueda,cpu:gloo"])
def test_a_group_hands_tensors_of_the_host_to_gloo_and_uses_those_of_the_device(reached, backends):
    assert torchrun("two_backends.py", backends, "standin", "ours", ranks=3).count("ok") == 3


@pytest.mark.parametrize("launcher, ranks", [pytest.param(torchrun, 2, marks=pytest.mark.long, id="torchrun"), pytest.param(hvdrun, 3, id="hvdrun")])
def test_training_there_equals_training_on_the_host(launcher, ranks):
    assert launcher("device_training.py", ranks=ranks).count("ok") == ranks


@pytest.mark.long
@pytest.mark.parametrize("reached", ["staged", pytest.param("nccl", marks=pytest.mark.long)], indirect=True)
def test_training_where_tensors_lie_equals_training_on_the_host(reached):
    assert hvdrun("device_training.py", ranks=2).count("ok") == 2


@pytest.mark.parametrize("reached", ["nccl"], indirect=True)
def test_gradients_go_in_batches_behind_their_streams_and_ctrl_c_loses_no_memory(reached):
    assert hvdrun("device_hooks.py", ranks=2).count("ok") == 2


@pytest.mark.parametrize("reached", ["nccl", pytest.param("staged", marks=pytest.mark.long)], indirect=True)
def test_an_interrupt_after_an_enqueue_leaves_its_memory_to_the_device(reached):
    assert torchrun("interrupted_starts.py", "standin", ranks=2).count("ok") == 2


@pytest.mark.long
@pytest.mark.parametrize("reached", ["nccl"], indirect=True)
@pytest.mark.parametrize("kind", ["ddp", "wait"])
def test_an_interrupt_ends_a_wait_for_a_rank_that_does_not_come(reached, kind, tmp_path, monkeypatch):
    monkeypatch.setenv("RUEDA_TIMEOUT_SECONDS", "200")
    interrupt_a_wait(kind, tmp_path)


@pytest.mark.parametrize("reached", ["nccl"], indirect=True)
def test_numbers_that_an_abort_leaves_are_not_committed(reached, monkeypatch):
    monkeypatch.setenv("STANDIN_CUDA_DELAY_US", "20000")
    assert "survivor: no garbage" in hvdrun("garbage.py", ranks=2, fails=True)
