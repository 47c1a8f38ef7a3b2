"""What one arithmetic instruction does: types in, a function over lanes, types out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel_magic.gpu.simt.types import TYPES, Type

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence


class UnknownFormError(Exception):
    """An instruction whose modifiers or types are not known; the compiler turns it into a ProgramError."""


class Modifiers:
    """The parts of an opcode after its name. Whoever understands one takes it; what is left over is unknown."""

    def __init__(self, parts: Sequence[str]) -> None:
        self.left = [part for part in parts if part]

    def flag(self, name: str) -> bool:
        """Take a modifier that may be there."""
        if name not in self.left:
            return False
        self.left.remove(name)
        return True

    def one_of(self, names: Collection[str], default: str = "") -> str:
        """Take the first of several that exclude each other."""
        for part in self.left:
            if part in names:
                self.left.remove(part)
                return part
        return default

    def drop(self, names: Collection[str]) -> None:
        """Take modifiers that change nothing here."""
        self.left = [part for part in self.left if part not in names]

    def type(self) -> Type:
        """Take the last type.

        Raises:
            UnknownFormError: There is none.

        """
        for at in range(len(self.left) - 1, -1, -1):
            if self.left[at] in TYPES:
                return TYPES[self.left.pop(at)]
        raise UnknownFormError("it names no type that the device knows")

    def finish(self) -> None:
        """Be sure that everything was understood.

        Raises:
            UnknownFormError: Some modifier was not.

        """
        if self.left:
            raise UnknownFormError(f".{'.'.join(self.left)} is not known here")


@dataclass(frozen=True)
class Form:
    """One instruction's meaning for a set of lanes.

    Attributes:
        results: Types of what it writes.
        sources: Types of what it reads.
        function: From as many arrays as sources to one array, or to a tuple of them where there are several results.
        carry_in: The carry flag is one more source, the last (bool).
        carry_out: The carry flag is one more result, the last (bool).

    """

    results: tuple[Type, ...]
    sources: tuple[Type, ...]
    function: Callable[..., Any]
    carry_in: bool = False
    carry_out: bool = False


def same(kind: Type, count: int, function: Callable[..., Any]) -> Form:
    """One result and `count` sources, all of one type."""
    return Form((kind,), (kind,) * count, function)


def require(condition: bool, why: str) -> None:
    """Refuse a form.

    Raises:
        UnknownFormError: The condition does not hold.

    """
    if not condition:
        raise UnknownFormError(why)
