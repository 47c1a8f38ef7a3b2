"""Runs a module of the package that this file is part of: `python -P run_module.py MODULE ARGUMENT ...`.

The package is imported from this file's folder and nothing is added to the search path, where other files in that
folder's parent could hide modules of the standard library.
"""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    package = Path(__file__).parent
    spec = importlib.util.spec_from_file_location(
        package.name, package / "__init__.py", submodule_search_locations=[str(package)]
    )
    assert spec is not None  # noqa: S101 - it names a file
    assert spec.loader is not None  # noqa: S101
    sys.modules[package.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[package.name])
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
