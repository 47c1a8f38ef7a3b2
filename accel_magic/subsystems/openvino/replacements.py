"""Methods of other packages' classes that are replaced while something is watched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[..., Any]


class Replacements:
    """Replaces methods, and restores them."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._replaced)

    def owners(self) -> tuple[Any, ...]:
        """The classes of which methods are replaced."""
        return tuple(owner for owner, *_ in self._replaced)

    def set(self, owner: Any, name: str, replacement: Callable[[Function], Function]) -> None:
        """Replace a method by what `replacement` makes of it; does nothing if `owner` has none of this name."""
        original = getattr(owner, name, None)
        if original is not None:
            made = replacement(original)
            self._replaced.append((owner, name, original, made))
            setattr(owner, name, made)

    def restore(self) -> None:
        """Restore the methods, unless somebody else has replaced them since. Can be called repeatedly."""
        while self._replaced:
            owner, name, original, made = self._replaced.pop()
            if getattr(owner, name, None) is made:
                setattr(owner, name, original)
