"""Tensors and models on a device that is not the host: a stand-in that behaves like a GPU as far as mistakes would show."""

import sys

import pytest
import torch
from test_torch_distributed import PROGRAMS, hvdrun, torchrun

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


def test_collectives_of_both_dialects_reach_its_tensors():
    assert torchrun("devices.py", ranks=3).count("ok") == 3


@pytest.mark.parametrize("launcher, ranks", [pytest.param(torchrun, 2, marks=pytest.mark.long, id="torchrun"), pytest.param(hvdrun, 3, id="hvdrun")])
def test_training_there_equals_training_on_the_host(launcher, ranks):
    assert launcher("device_training.py", ranks=ranks).count("ok") == ranks
