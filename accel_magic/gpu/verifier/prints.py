"""Formats of `bpf_trace_printk`: what cannot be printed as it is meant, seen before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.maps.printing import MOST_TEXT, check_format
from accel_magic.gpu.verifier import memory
from accel_magic.gpu.verifier.findings import Breach

if TYPE_CHECKING:
    from accel_magic.gpu.program.verdict import Place
    from accel_magic.gpu.verifier.run import Run
    from accel_magic.gpu.verifier.state import State
    from accel_magic.gpu.verifier.values import Value

NUMBER: Final = 6
"""The helper."""
_FIRST: Final = 3
"""Register of the first number."""


def look(run: Run, state: State, place: Place) -> None:
    """Note what is wrong with a call's format, in `Run.prints`; formats that are not known are let pass.

    The path goes on all the same: whatever is printed touches no memory.
    """
    registers = state.frame.registers
    size = registers[2].number
    text = _text(run, state, registers[1], size.value if size.known else MOST_TEXT + 1)
    if text is None:
        return
    if len(text) >= MOST_TEXT:
        message = f"the format is longer than {MOST_TEXT} bytes, and the rest is cut off"
        run.prints.setdefault(place, (message, "print twice, or write a record into a ring buffer"))
        return
    shown = text.decode("utf-8", "replace")
    try:
        wanted = check_format(shown)
    except ProgramError as error:
        run.prints.setdefault(place, ("; ".join(filter(None, (error.what, error.why))), error.fix))
        return
    given = sum(registers[_FIRST + number].kind != "unset" for number in range(wanted))
    if given < wanted:
        message = f"the format {shown!r} takes {wanted} numbers, and {given} are given"
        run.prints.setdefault(place, (message, "pass a number for each conversion"))


def _text(run: Run, state: State, address: Value, size: int) -> bytes | None:
    """Read a text up to its end, or as much as arrives; None where a byte is not known."""
    found = bytearray()
    for at in range(min(size, MOST_TEXT)):
        try:
            byte = memory.peek(run, state, address, at)
        except Breach:
            return None
        if not byte.known:
            return None
        if not byte.value:
            break
        found.append(byte.value)
    return bytes(found)
