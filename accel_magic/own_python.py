"""Commands that run modules of this package in other processes.

`python -m` looks for modules in the working folder first: a `platform.py` beside the notebook would run in every helper
process, in place of Python's own. `-P` leaves the working folder out, and `run_module.py` then imports this very
package from where it lies, whatever else is on the search path.
"""

from __future__ import annotations

import sys
from pathlib import Path

_RUN = Path(__file__).with_name("run_module.py")


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this package as `python -m` would."""
    return [sys.executable, "-P", str(_RUN), module, *arguments]
