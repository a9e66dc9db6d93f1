"""The package that makes Horovod's imports mean Rueda's."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

ALIAS = pathlib.Path(__file__).parents[3] / "bindings" / "python" / "horovod_alias"


def test_it_refuses_to_be_imported_or_built_beside_a_real_horovod(tmp_path):
    metadata = tmp_path / "horovod-0.28.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\n")
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    done = subprocess.run([sys.executable, "-c", "import horovod"], capture_output=True, text=True,
                          env=dict(os.environ, PYTHONPATH=path))  # fmt: skip
    assert "Horovod 0.28.1 and rueda-horovod-alias are both installed" in done.stderr
    build = "import sysconfig, beside_horovod; sysconfig.get_path = lambda name: sys.argv[1]; beside_horovod.build_wheel('.')"
    done = subprocess.run([sys.executable, "-c", "import sys; " + build, str(tmp_path)], capture_output=True, text=True, cwd=ALIAS)
    assert done.returncode == 1 and "Horovod 0.28.1 is installed" in done.stderr


def test_what_it_builds_is_not_taken_for_a_real_horovod(tmp_path):
    """pip from 25.0 to 26.2 adds a finder that looks at no name, for the folder in which the build has put its own metadata."""
    metadata = tmp_path / "rueda_horovod_alias.egg-info"
    metadata.mkdir()
    (metadata / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: rueda-horovod-alias\nVersion: 1.0.0\n")
    finder = f"""
import importlib.metadata, pathlib, sys
class Finder(importlib.metadata.DistributionFinder):
    def find_spec(self, *_): return None
    def find_distributions(self, context): return [importlib.metadata.PathDistribution(pathlib.Path({str(metadata)!r}))]
sys.meta_path.append(Finder())
import beside_horovod
beside_horovod.build_wheel({str(tmp_path)!r})
"""
    done = subprocess.run([sys.executable, "-c", finder], capture_output=True, text=True, cwd=shutil.copytree(ALIAS, tmp_path / "alias"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_launcher_is_hvdrun_by_its_module_too():
    for module in ("horovod.runner.launch", "horovod.run"):
        command = [sys.executable, "-m", module, "-np", "1", sys.executable, "-c", "print('started')"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "[0]<stdout>:started\n", "")


def test_the_launcher_is_a_function_and_where_older_scripts_look_a_module_too():
    for text in (
        "import horovod; print(horovod.run(divmod, (7, 2), np=1))",
        "import horovod; from horovod.runner import run; assert horovod.run is run; print(run(divmod, (7, 2)))",
        "import horovod.run; print(horovod.run(divmod, (7, 2)))",
        "import horovod.run; print(horovod.run.run(divmod, args=(7, 2)))",
        "from horovod.run import run; print(run(divmod, (7, 2)))",
    ):
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        assert done.stdout == "[(3, 1)]\n", done.stderr


def test_an_extension_is_there_for_a_framework_that_is_installed():
    import horovod.torch as hvd
    from horovod.common import util

    assert hvd.check_extension is util.check_extension
    util.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", __file__, "mpi_lib_v2")
    for framework in ("tensorflow", "mxnet"):
        if importlib.util.find_spec(framework) is not None:
            util.check_extension(f"horovod.{framework}", "HOROVOD_WITH", __file__)
            continue
        with pytest.raises(ImportError, match=f"horovod.{framework}: Rueda supports PyTorch"):
            util.check_extension(f"horovod.{framework}", "HOROVOD_WITH", __file__)
    util.check_installed_version("torch", "0.1")


def test_small_helpers_are_where_horovod_has_them():
    from horovod.common import exceptions, util
    from horovod.torch import mpi_ops

    import rueda.torch

    assert util.gloo_built(verbose=True) and util.mpi_built() == rueda.torch.mpi_built() and util.nccl_built() >= 0
    assert not util.ddl_built() and not util.ccl_built()
    assert "torch 1" in exceptions.get_version_mismatch_message("torch", "1", "2")
    assert mpi_ops.num_rank_is_power_2(8) and not mpi_ops.num_rank_is_power_2(6) and mpi_ops.HorovodInternalError
    assert mpi_ops.gpu_available("torch") == util.gpu_available("torch")
    assert mpi_ops._basics.is_initialized() == rueda.torch.is_initialized()
    assert callable(importlib.import_module("horovod.torch.optimizer")._DistributedOptimizer)
    assert util.is_iterable([1]) and not util.is_iterable(1)
    for version, target, later in [("2.1", "2.1.0", True), ("2.10.0+cpu", "2.9", True), ("1.13.1", "2", False)]:
        assert util.is_version_greater_equal_than(version, target) == later
    with pytest.raises(ValueError, match="version 'main'"):
        util.is_version_greater_equal_than("main", "2")


def test_helpers_of_the_launcher_are_where_horovod_has_them(monkeypatch):
    from horovod.common import util
    from horovod.runner.common.util import env
    from horovod.runner.util import threads

    for rank, _ in env._LAUNCHERS:
        monkeypatch.delenv(rank, raising=False)
    assert env.get_env_rank_and_size() == (0, 1)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    assert env.get_env_rank_and_size() == (2, 4)
    called = []
    thread = threads.in_thread(called.append, (7,), name="seven")
    thread.join()
    assert called == [7] and thread.name == "seven" and thread.daemon
    with pytest.raises(ValueError, match="give a tuple of arguments"):
        threads.in_thread(print, "text")
    once = util._cache(lambda: called.append(8) or len(called))
    assert once() == once() == 2


def test_parts_of_horovod_torch_are_there_once_it_is_imported():
    text = """
import torch, horovod.torch as hvd
class Halves(hvd.compression.Compressor):
    @staticmethod
    def compress(tensor):
        return tensor.half(), tensor.dtype
    @staticmethod
    def decompress(tensor, ctx):
        return tensor.to(ctx)
hvd.init()
assert hvd.compression.NoneCompressor is hvd.Compression.none and hvd.compression.FP16Compressor is hvd.Compression.fp16
print(hvd.mpi_ops.allreduce(torch.ones(2), compression=Halves), hvd.functions.broadcast_object(7), hvd.elastic.run.__name__)
print(hvd.optimizer.DistributedOptimizer is hvd.DistributedOptimizer, hvd.sync_batch_norm.SyncBatchNorm is hvd.SyncBatchNorm)
try:
    hvd.allreduce(torch.ones(2), compression=hvd.compression.Compressor)
except NotImplementedError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["tensor([1., 1.]) 7 run", "True True", "a compressor must define compress(tensor)"], done.stderr


def test_it_builds_a_wheel_with_the_command_horovodrun(tmp_path):
    # In a copy, so that what setuptools leaves behind does not lie in the sources.
    shutil.copytree(ALIAS, tmp_path / "alias", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    build = f"import sys; sys.path.insert(0, '.'); import beside_horovod; beside_horovod.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], check=True, capture_output=True, cwd=tmp_path / "alias")
    (wheel,) = tmp_path.glob("rueda_horovod_alias-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entries = next(name for name in names if name.endswith("entry_points.txt"))
        assert "horovodrun = horovod.runner.launch:run_commandline" in archive.read(entries).decode()
        assert {"horovod/torch/__init__.py", "horovod/run.py"} <= set(names) and "beside_horovod.py" not in names
