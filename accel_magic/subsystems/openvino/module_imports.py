"""Calls a function once a module is imported: now if it is, else right after it was executed."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Imported = Callable[[Any], object]
    """Takes the module."""


def when_imported(name: str, function: Imported) -> None:
    """Call a function with a module once it is imported."""
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        function(module)
        return
    _finder.waiting[name] = function
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def forget(name: str) -> None:
    """Undo `when_imported`, if the module was not imported since."""
    _finder.waiting.pop(name, None)
    if not _finder.waiting:
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(_finder)


class _Finder(MetaPathFinder):
    """Finds nothing itself: has the loaders that others find call back."""

    def __init__(self) -> None:
        self.waiting: dict[str, Imported] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification that others find, with a loader that calls back; None for all other modules."""
        del path, target
        function = self.waiting.get(fullname)
        if function is None:
            return None
        forget(fullname)
        spec = importlib.util.find_spec(fullname)
        execute = getattr(spec and spec.loader, "exec_module", None)
        if spec is not None and execute is not None:
            spec.loader.exec_module = functools.partial(_load, execute, function)  # type: ignore[union-attr,method-assign]
        return spec


_finder: Final = _Finder()


def _load(execute: Imported, function: Imported, module: ModuleType) -> None:
    execute(module)
    function(module)
