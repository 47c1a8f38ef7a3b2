"""The state of a program between two instructions: registers and stack of every active function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic.gpu.verifier import values
from accel_magic.gpu.verifier.stack import Cell, Frame
from accel_magic.gpu.verifier.values import UNSET, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.gpu.verifier.domain import Scalar
    from accel_magic.gpu.verifier.findings import Place

Chain = tuple[tuple[int, int], ...]
"""The calls that led here: of each the caller's place and the slot that it goes on at."""


@dataclass(slots=True)
class State:
    """All active functions, the program's own first.

    Attributes:
        frames: At least one.
        chain: Where each but the last goes on; one shorter than `frames`.
        records: Reserved records that are not given back yet: id and the place of the reserve.

    """

    frames: list[Frame]
    chain: Chain
    records: dict[int, Place]

    @property
    def frame(self) -> Frame:
        """The function that runs."""
        return self.frames[-1]

    def copy(self) -> State:
        """Make a state that changes on its own."""
        frames = [Frame(one.function, one.registers.copy(), one.cells, one.written) for one in self.frames]
        return State(frames, self.chain, self.records)

    def refine(self, identity: int, known: Scalar) -> None:
        """Put a sharper number in every place that holds the same one."""
        self._change(identity, lambda value: value._replace(number=known))

    def settle_null(self, identity: int, *, null: bool) -> None:
        """Make what came from a lookup or a reserve a pointer, or the number zero, wherever it is held."""
        if null:
            self._change(identity, lambda _value: Value("scalar", values.ZERO))
            self.records = {one: place for one, place in self.records.items() if one != identity}
        else:
            self._change(identity, _not_null)

    def release(self, identity: int) -> None:
        """Forget a record; what still holds it must not be used."""
        self._change(identity, lambda _value: values.RELEASED)
        self.records = {one: place for one, place in self.records.items() if one != identity}

    def _change(self, identity: int, changed: Callable[[Value], Value]) -> None:
        for frame in self.frames:
            for at, value in enumerate(frame.registers):
                if value.id == identity:
                    frame.registers[at] = changed(value)
            if any(cell.value.id == identity for cell in frame.cells.values()):
                frame.cells = {
                    at: Cell(cell.size, changed(cell.value)) if cell.value.id == identity else cell
                    for at, cell in frame.cells.items()
                }


def _not_null(value: Value) -> Value:
    return value._replace(kind="record") if value.kind == "record_or_null" else value._replace(kind="value", id=0)


def at_start() -> State:
    """Give the state at a program's first instruction."""
    return State([entered(0, 0, [UNSET, values.CONTEXT, UNSET, UNSET, UNSET, UNSET])], (), {})


def entered(function: int, depth: int, arguments: list[Value]) -> Frame:
    """Give the frame of a function that begins: r0 to r5 as given, and an empty stack."""
    own = Value("stack", values.ZERO, frame=depth)
    return Frame(function, [*arguments, UNSET, UNSET, UNSET, UNSET, own], {})
