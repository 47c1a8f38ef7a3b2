"""Values of registers and stack pieces during the analysis."""

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
    "object",  # of the driver, in a policy
    "data",
]

ZERO: Final = constant(0)


class RegisterValue(NamedTuple):
    """A value.

    Attributes:
        kind: The kind of value.
        number: A scalar's value, or a pointer's offset in bytes from the start of the object that it points into. Stack
            offsets are relative to the frame's end.
        map: Name of the map that it belongs to; for an object, that of its struct.
        frame: For a stack pointer: index of the active function that owns the stack, 0 for the main function. For an
            object: 1 if it is an argument of the hook, which is not null; else 0.
        id: For scalars: equal ids are equal numbers; 0 is no id. For records and values that may be null: the call
            that returned them.
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
        """Whether it is an address or a handle, which must not leave the program."""
        return self.kind not in ("scalar", "unset", "released")


UNSET: Final = RegisterValue("unset")
RELEASED: Final = RegisterValue("released")
CONTEXT: Final = RegisterValue("context")
ANYTHING: Final = RegisterValue("scalar", UNKNOWN)
OR_NULL: Final = frozenset({"value_or_null", "record_or_null"})
_HELD: Final = frozenset({"value_or_null", "record_or_null", "record"})
_UNUSABLE: Final = frozenset({"unset", "released"})

NAMES: Final[dict[str, str]] = {
    "unset": "nothing",
    "released": "a record that was submitted or discarded",
    "scalar": "a number",
    "stack": "a pointer to the stack",
    "map": "a map",
    "value": "a pointer to a map value",
    "value_or_null": "the result of a map lookup",
    "record": "a pointer to a ring buffer record",
    "record_or_null": "the result of a ring buffer reserve",
    "context": "a pointer to the context",
    "object": "a pointer to an object of the driver",
    "data": "a pointer to a global variable",
}
"""Names of the kinds in messages."""


def number(known: Scalar) -> RegisterValue:
    """Return a scalar."""
    return RegisterValue("scalar", known)


class Ids:
    """Correspondence between the ids of an old and a new state while the two are compared."""

    __slots__ = ("_backward", "_forward")

    def __init__(self) -> None:
        self._forward: dict[int, int] = {}
        self._backward: dict[int, int] = {}

    def agree(self, old: RegisterValue, new: RegisterValue) -> bool:
        """Whether two ids can correspond; if so, they do from then on."""
        if not old.id:
            return True
        token = new.id or self._alone(new)
        if self._forward.setdefault(old.id, token) != token:
            return False
        return old.kind == "scalar" or self._backward.setdefault(token, old.id) == old.id

    def _alone(self, new: RegisterValue) -> int:
        """Return an id for a number without one: the same for equal constants, a unique one otherwise."""
        return ~new.number.value if new.number.known else -(1 << 65) - len(self._forward)

    def of(self, old: int) -> int | None:
        """Return the new state's id for one of the old state's."""
        return self._forward.get(old)


def covers(old: RegisterValue, new: RegisterValue, ids: Ids) -> bool:
    """Whether every breach possible with the new value is possible with the old one."""
    if old.kind in _UNUSABLE:
        return True
    if old.kind != new.kind or old[2:4] != new[2:4] or old.size != new.size:
        return False
    return includes(old.number, new.number) and ids.agree(old, new)


def joined(old: RegisterValue, new: RegisterValue, ids: Ids, *, widening: bool) -> RegisterValue | None:
    """Return a value that covers both, with the new one's ids; None if only 'unset' does."""
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
