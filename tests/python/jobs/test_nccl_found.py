"""Where nccl_built() finds NCCL. A stand-in does: it only has to say its version."""

import os
import pathlib
import subprocess
import sys

import pytest

import rueda

STAND_IN = pathlib.Path(rueda.__file__).parents[2] / "cuda" / "libnccl.so.2"  # of the build
VERSION = 22809
pytestmark = pytest.mark.skipif(not STAND_IN.exists(), reason="this build has no CUDA plug-in")


def built(site, **variables):
    """nccl_built() in a process that finds Rueda in `site`."""
    surroundings = {name: value for name, value in os.environ.items() if name not in ("RUEDA_NCCL_LIBRARY", "LD_LIBRARY_PATH")}
    done = subprocess.run([sys.executable, "-B", "-c", "from rueda import build; print(build.nccl_built())"], check=True,
                          capture_output=True, text=True, env={**surroundings, "PYTHONPATH": str(site), **variables})  # fmt: skip
    return int(done.stdout)


def test_nccl_is_found_beside_rueda_where_pip_puts_it_unless_another_one_is_named(tmp_path):
    (tmp_path / "rueda").symlink_to(pathlib.Path(rueda.__file__).parent)
    folder = tmp_path / "nvidia" / "nccl" / "lib"
    folder.mkdir(parents=True)
    before = built(tmp_path)  # what the linker finds
    (folder / "libnccl.so.2").symlink_to(STAND_IN)
    assert built(tmp_path) == VERSION
    assert built(tmp_path, RUEDA_NCCL_LIBRARY="/nowhere") == 0
    (folder / "libnccl.so.2").unlink()
    assert built(tmp_path) == before
    assert built(tmp_path, LD_LIBRARY_PATH=str(STAND_IN.parent)) == VERSION
