"""Names of a notebook's cells, by which its frames are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_names: Callable[[], Mapping[str, str]] = dict


def use(names: Callable[[], Mapping[str, str]]) -> None:
    """Set the function that returns the name of each cell by its file; `dict` for no names."""
    global _names  # noqa: PLW0603 - a process has one notebook
    _names = names


def names() -> Mapping[str, str]:
    """`cell [12]` by file; empty outside a notebook."""
    return _names()
