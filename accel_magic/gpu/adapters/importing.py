"""Hearing of modules that get imported."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


@contextmanager
def on_import(names: Iterable[str], imported: Callable[[str], None]) -> Iterator[None]:
    """Call `imported(name)` once right after each named module has been imported, until the context ends.

    An import that fails is not reported, and may be tried again.
    """
    finder = _Finder(set(names), imported)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        # A loader that is still at work keeps the finder alive: it must not report any more.
        finder.waiting.clear()
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds nothing itself: lets the other finders do it, and puts a loader that reports in front of theirs."""

    def __init__(self, waiting: set[str], imported: Callable[[str], None]) -> None:
        self.waiting = waiting
        self.imported = imported

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.waiting:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None


class _Loader(Loader):
    """The module's own loader, and a report when it has finished."""

    def __init__(self, own: Any, finder: _Finder) -> None:
        self._own = own
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._own.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The module keeps its own loader: resources are read through it, and some modules look at it.
        name, module.__loader__ = module.__name__, self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._own.exec_module(module)
        if name in self._finder.waiting:
            self._finder.waiting.discard(name)
            self._finder.imported(name)
