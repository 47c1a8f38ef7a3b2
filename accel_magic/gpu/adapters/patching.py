"""Replacing attributes and environment variables for a while."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables until the context ends; afterwards those that nobody else has changed are as before."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if os.environ.get(name) != values[name]:
                continue
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def substituted(pairs: Sequence[tuple[object, object]], apart_from: tuple[str, ...]) -> Iterator[None]:
    """Put new objects in the place of old ones in all modules that have them under some name, until the context ends.

    For classes and functions that users bind with `from package import name`, in notebooks before the cell.

    Args:
        pairs: What modules have now, and what they see until the end; names bound meanwhile go back too.
        apart_from: Beginnings of the names of modules that keep the old ones.

    """
    _rebind({id(old): new for old, new in pairs}, apart_from)
    try:
        yield
    finally:
        _rebind({id(new): old for old, new in pairs}, ())


def _rebind(new: Mapping[int, object], apart_from: tuple[str, ...]) -> None:
    for module_name, module in list(sys.modules.items()):
        if apart_from and module_name.startswith(apart_from):
            continue
        try:
            # Past the module's own way to get attributes: asking a lazy module for anything imports it.
            names: dict[str, object] = object.__getattribute__(module, "__dict__")
        except AttributeError:
            continue
        for name in [name for name, value in list(names.items()) if id(value) in new]:
            names[name] = new[id(names[name])]


def absent(owner: Any, names: Iterable[str]) -> str:
    """Say which dotted names `owner` does not have, '' for none: the feature test of an adapter."""
    return ", ".join(name for name in names if not _has(owner, name.split(".")))


def _has(owner: Any, parts: list[str]) -> bool:
    for part in parts:
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True
