"""What a program may import is written down, so that type checkers and `import *` know it."""

import sys
import types

import pytest

import rueda
import rueda.numpy
import rueda.torch



@pytest.mark.parametrize("module", [rueda.torch, rueda.numpy], ids=lambda module: module.__name__)
def test_every_public_name_of_the_dialect_is_listed_and_there(module):
    listed = set(module.__all__)
    assert all(hasattr(module, name) for name in listed)
    defined = {name for name, value in vars(module).items()
               if not name.startswith("_") and getattr(value, "__module__", "").startswith("rueda") and not name.isupper()}  # fmt: skip
    internal = {"Options", "id_of", "make_options", "current", "dtype_to_move", "encode_name", "reduce_op", "root_of"}
    assert defined - listed - internal == set()
    assert {name for name in listed if isinstance(getattr(module, name), types.ModuleType)} <= {"elastic"}


def test_what_the_package_itself_lists_is_there():
    for name in rueda.__all__:
        named = getattr(rueda, name)
        home = sys.modules["rueda." + {"run": "launch"}.get(name, named.__module__.partition(".")[2])]
        assert vars(home)[name] is named
    with pytest.raises(AttributeError, match="module 'rueda' has no attribute 'nothing'"):
        rueda.nothing
