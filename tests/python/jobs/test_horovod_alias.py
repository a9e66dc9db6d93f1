"""The package that makes Horovod's imports mean Rueda's."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

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


def test_the_launcher_is_hvdrun_by_its_module_too():
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", "1", sys.executable, "-c", "print('started')"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[0]<stdout>:started\n"), done.stderr


def test_it_builds_a_wheel_with_the_command_horovodrun(tmp_path):
    # In a copy, so that what setuptools leaves behind does not lie in the sources.
    shutil.copytree(ALIAS, tmp_path / "alias", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    build = f"import sys; sys.path.insert(0, '.'); import beside_horovod; beside_horovod.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], check=True, capture_output=True, cwd=tmp_path / "alias")
    (wheel,) = tmp_path.glob("rueda_horovod_alias-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entries = next(name for name in names if name.endswith("entry_points.txt"))
        assert "horovodrun = rueda.programs:hvdrun" in archive.read(entries).decode()
        assert "horovod/torch/__init__.py" in names and "beside_horovod.py" not in names
