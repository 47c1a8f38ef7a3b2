"""What a register, or a piece of the stack, can hold during the analysis."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from accel_magic.gpu.verifier.domain import UNKNOWN, Scalar, constant, includes, join, widen

Kind = Literal[
    "unset",
    "released",  # a record after submit or discard
    "scalar",
    "stack",
    "map",
    "value",
    "value_or_null",
    "record",
    "record_or_null",
    "context",
    "data",
]

ZERO: Final = constant(0)


class Value(NamedTuple):
    """A value.

    Attributes:
        kind: What it is.
        number: A scalar's value; a pointer's offset in bytes from the start of what it points into. Stack offsets count
            from the frame's end.
        map: Name of the map that it belongs to.
        frame: Of a stack pointer: which active function's stack, 0 for the program's own.
        id: Of scalars: equal ids are equal numbers; 0 is alone. Of what may be null, and of records: which call it
            comes from.
        size: Bytes of a record.

    """

    kind: Kind
    number: Scalar = ZERO
    map: str = ""
    frame: int = 0
    id: int = 0
    size: int = 0

    @property
    def pointer(self) -> bool:
        """Whether it is an address or a handle, which must not get out."""
        return self.kind not in ("scalar", "unset", "released")


UNSET: Final = Value("unset")
RELEASED: Final = Value("released")
CONTEXT: Final = Value("context")
ANYTHING: Final = Value("scalar", UNKNOWN)
OR_NULL: Final = frozenset({"value_or_null", "record_or_null"})
_HELD: Final = frozenset({"value_or_null", "record_or_null", "record"})
_UNUSABLE: Final = frozenset({"unset", "released"})

NAMES: Final[dict[str, str]] = {
    "unset": "nothing",
    "released": "a record that was given back",
    "scalar": "a number",
    "stack": "an address of the stack",
    "map": "a map",
    "value": "a map's value",
    "value_or_null": "a map's value or null",
    "record": "a ring buffer's record",
    "record_or_null": "a ring buffer's record or null",
    "context": "the context",
    "data": "a global variable",
}
"""How messages call the kinds."""


def number(known: Scalar) -> Value:
    """A scalar."""
    return Value("scalar", known)


class Ids:
    """Which id of an old state stands for which id of a new one, while the two are compared."""

    __slots__ = ("_backward", "_forward")

    def __init__(self) -> None:
        self._forward: dict[int, int] = {}
        self._backward: dict[int, int] = {}

    def agree(self, old: Value, new: Value) -> bool:
        """Whether two ids can stand for each other; they do from then on."""
        if not old.id:
            return True
        token = new.id or self._alone(new)
        if self._forward.setdefault(old.id, token) != token:
            return False
        return old.kind == "scalar" or self._backward.setdefault(token, old.id) == old.id

    def _alone(self, new: Value) -> int:
        """Give an id to a number that has none: equal constants are equal numbers, all others are alone."""
        return ~new.number.value if new.number.known else -(1 << 65) - len(self._forward)

    def of(self, old: int) -> int | None:
        """Give the new state's id for one of the old state's."""
        return self._forward.get(old)


def covers(old: Value, new: Value, ids: Ids) -> bool:
    """Whether all that can go wrong with the new value can go wrong with the old one."""
    if old.kind in _UNUSABLE:
        return True
    if old.kind != new.kind or old[2:4] != new[2:4] or old.size != new.size:
        return False
    return includes(old.number, new.number) and ids.agree(old, new)


def joined(old: Value, new: Value, ids: Ids, *, widening: bool) -> Value | None:
    """Give a value that covers both, with the new one's ids; None where there is none but 'unset'."""
    if old == new:
        ids.agree(old, new)
        return new
    if old.kind != new.kind or old[2:4] != new[2:4] or old.size != new.size:
        return None
    if new.kind in _HELD and not ids.agree(old, new):
        return None
    known = widen(old.number, new.number) if widening else join(old.number, new.number)
    same = new.kind in _HELD or old.id == new.id
    return new._replace(number=known, id=new.id if same else 0)
