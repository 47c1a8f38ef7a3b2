"""What a forked child must forget: locks whose owners it lacks, and processes and traces of its parent."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def in_child(forget: Callable[[], object]) -> None:
    """Call a function in each child that this process forks from now on; on Windows processes do not fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)
