"""Libraries that copy stacks: from the moment one is imported, no more calls are measured."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

NAMES: Final = ("greenlet",)
"""Modules of Python that do."""


class ImportWatch:
    """Calls a function before one of these modules is imported, until `stop`. It finds no module itself."""

    def __init__(self, copies: Callable[[], object]) -> None:
        self._copies = copies
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Look at the name of a module that is about to be imported."""
        del path, target
        if name.partition(".")[0] in NAMES:
            self._copies()
        return None

    def stop(self) -> None:
        """Stop watching; can be called repeatedly."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
