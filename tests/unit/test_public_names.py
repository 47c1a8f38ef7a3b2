"""Public names of `import accel_magic` and `from accel_magic import *`."""

import builtins
import importlib

import accel_magic


def test_a_star_import_replaces_no_builtin():
    names = {}
    exec("from accel_magic import *", names)

    assert [name for name in names if not name.startswith("__") and hasattr(builtins, name)] == []
    assert names["trace"] is accel_magic.trace


def test_accel_magic_open_opens_recordings():
    assert accel_magic.open is importlib.import_module("accel_magic.api.open").open_result
