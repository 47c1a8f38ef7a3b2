"""Names that the notebook's cells are shown by, instead of the files that IPython invents for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_names: Callable[[], Mapping[str, str]] = dict


def use(names: Callable[[], Mapping[str, str]]) -> None:
    """Have `names` give the name of each cell by its file, from now on; `dict` for none."""
    global _names  # noqa: PLW0603 - a process has one notebook
    _names = names


def names() -> Mapping[str, str]:
    """`cell [12]` by file; empty where there is no notebook."""
    return _names()
