"""Run a module of the package that contains this file: `python -P run_module.py MODULE ARGUMENT ...`.

The package is imported from this file's folder without changing the search path: files in the parent folder could
otherwise shadow standard library modules.
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
    if spec is None or spec.loader is None:
        raise ImportError(package)
    sys.modules[package.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[package.name])
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
