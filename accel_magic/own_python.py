"""Commands that run modules of this package in other processes.

`python -m` searches the working folder first: a `platform.py` beside the notebook would replace Python's own in every
helper process. `-P` excludes the working folder, and `run_module.py` then imports this package from its own location,
whatever else is on the search path.
"""

from __future__ import annotations

import sys
from pathlib import Path

_RUN = Path(__file__).with_name("run_module.py")


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this package as `python -m` would."""
    return [sys.executable, "-P", str(_RUN), module, *arguments]
