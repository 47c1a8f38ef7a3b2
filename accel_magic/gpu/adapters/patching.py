"""Replacing attributes for a while."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NOTHING = object()


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Set `owner.name` until the context ends; afterwards it is as before, absent where it was inherited or absent."""
    before = vars(owner).get(name, _NOTHING)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _NOTHING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


@contextmanager
def substituted(old: object, new: object, apart_from: tuple[str, ...]) -> Iterator[None]:
    """Put `new` in the place of `old` in all modules that have it under some name, until the context ends.

    For classes that cannot be changed: users bind them with `from package import Class`, in notebooks before the cell.

    Args:
        old: What modules have now.
        new: What they see until the end; names bound meanwhile go back to `old` too.
        apart_from: Beginnings of the names of modules that keep it.

    """
    _rebind(old, new, apart_from)
    try:
        yield
    finally:
        _rebind(new, old, ())


def _rebind(old: object, new: object, apart_from: tuple[str, ...]) -> None:
    for module_name, module in list(sys.modules.items()):
        if apart_from and module_name.startswith(apart_from):
            continue
        try:
            # Past the module's own way to get attributes: asking a lazy module for anything imports it.
            names: dict[str, object] = object.__getattribute__(module, "__dict__")
        except AttributeError:
            continue
        for name in [name for name, value in list(names.items()) if value is old]:
            names[name] = new


def absent(owner: Any, names: Iterable[str]) -> str:
    """Say which dotted names `owner` does not have, '' for none: the feature test of an adapter."""
    return ", ".join(name for name in names if not _has(owner, name.split(".")))


def _has(owner: Any, parts: list[str]) -> bool:
    for part in parts:
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True
