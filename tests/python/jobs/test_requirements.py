"""A framework that is missing or too old is told in one sentence, by every package that needs one that is not there."""

import subprocess
import sys

import pytest

OLD = "import sys, types; sys.modules[{name!r}] = types.ModuleType({name!r}); sys.modules[{name!r}].__version__ = {version!r}\n"
MISSING = "import sys; sys.modules[{name!r}] = None\n"


def error_of(text):
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 1, done.stdout
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("package, module, framework, oldest, older", [
    ("rueda.torch", "torch", "PyTorch", "1.13", "1.12.1"),
    ("rueda.numpy", "numpy", "NumPy", "1.23", "1.22.4"),
    ("rueda.keras", "keras", "Keras", "2.13", "2.12.0"),
])  # fmt: skip
def test_it_is_named_with_the_version_that_is_needed(package, module, framework, oldest, older):
    wanted = f"ImportError: {package} needs {framework} {oldest} or newer"
    missing = error_of(MISSING.format(name=module) + f"import {package}")
    assert missing.startswith(wanted + ", which cannot be imported here: ") and missing.endswith(f"; pip install {module}")
    old = error_of(OLD.format(name=module, version=older) + f"import {package}")
    assert old == f"{wanted}, and {older} is installed: pip install --upgrade {module}"


@pytest.mark.parametrize("package", ["rueda.tensorflow", "rueda.tensorflow.keras", "rueda.jax", "rueda.mxnet"])
def test_the_others_name_theirs(package):
    module = package.split(".")[1]
    error = error_of(MISSING.format(name=module) + ("import numpy; numpy.__version__ = '1.26.4'\n" if module == "mxnet" else "") + f"import {package}")
    assert error.startswith("ImportError: rueda." + module + " needs ") and "which cannot be imported" in error and "pip install " + module in error
