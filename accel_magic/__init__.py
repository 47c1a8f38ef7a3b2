"""Trace kernels, drivers, libraries and accelerators with eBPF from a Jupyter cell.

`%load_ext accel_magic` registers the magics; `trace(...)` does the same without a notebook. Names are loaded on first
use, so importing the package is cheap.
"""

from __future__ import annotations

import functools
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from accel_magic._version import __version__ as __version__


@functools.cache
def _public() -> dict[str, tuple[str, str]]:
    """Each public name's module and name there: the imports in the stub, which is what type checkers read."""
    import ast

    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text())
    lines = [line for line in stub.body if isinstance(line, ast.ImportFrom) and line.module != "typing"]
    return {name.asname or name.name: (str(line.module), name.name) for line in lines for name in line.names}


def __getattr__(name: str) -> Any:
    """Load a public name on first use. `last` is always the newest result; `doctor` is a module."""
    match name:
        case "last":
            return import_module("accel_magic.api.block").last()
        case "doctor":
            return import_module("accel_magic.api.doctor")
        case "__all__":  # without `open`, because a star import must not replace the builtin
            return sorted({*_public(), "load_ipython_extension", "unload_ipython_extension"} - {"open"})
    if name.startswith("__") or name not in _public():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _public()[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """All public names, loaded or not."""
    return sorted({*globals(), *_public(), "last"})


def load_ipython_extension(shell: Any) -> None:
    """Implement `%load_ext accel_magic`."""
    if "ACCEL_MAGIC_LAB" in os.environ and "accel_magic.magics.extension" not in sys.modules:
        print(
            "loading takes up to half a minute, because the lab emulates its processor; accel-magic lab build makes a "
            "snapshot, with which it takes none"
        )
    from accel_magic.magics.extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Implement `%unload_ext accel_magic`."""
    from accel_magic.magics.extension import unload

    unload(shell)
