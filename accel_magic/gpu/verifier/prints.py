"""Checks of `bpf_trace_printk` formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.maps.printing import MOST_TEXT, check_format
from accel_magic.gpu.verifier import accesses
from accel_magic.gpu.verifier.findings import Breach

if TYPE_CHECKING:
    from accel_magic.gpu.program.verdict import Place
    from accel_magic.gpu.verifier.analysis_pass import AnalysisPass
    from accel_magic.gpu.verifier.program_state import ProgramState
    from accel_magic.gpu.verifier.register_values import RegisterValue

NUMBER: Final = 6
"""Number of the helper."""
_FIRST: Final = 3
"""Register of the first number to print."""


def look(run: AnalysisPass, state: ProgramState, place: Place) -> None:
    """Record problems with a call's format in `Run.prints`; unknown formats are accepted.

    The path continues in any case, because printing cannot violate memory safety.
    """
    registers = state.frame.registers
    size = registers[2].number
    text = _text(run, state, registers[1], size.value if size.known else MOST_TEXT + 1)
    if text is None:
        return
    if len(text) >= MOST_TEXT:
        message = f"the format is longer than {MOST_TEXT} bytes; the rest is cut off"
        run.prints.setdefault(place, (message, "print twice, or write a record into a ring buffer"))
        return
    shown = text.decode("utf-8", "replace")
    try:
        requested = check_format(shown)
    except ProgramError as error:
        run.prints.setdefault(place, ("; ".join(filter(None, (error.what, error.why))), error.fix))
        return
    given = sum(registers[_FIRST + number].kind != "unset" for number in range(requested))
    if given < requested:
        message = f"the format {shown!r} needs {requested} numbers, but the call passes {given}"
        run.prints.setdefault(place, (message, "pass one number for each conversion"))


def _text(run: AnalysisPass, state: ProgramState, address: RegisterValue, size: int) -> bytes | None:
    """Read a text up to its end or the maximum length; None if a byte is unknown."""
    found = bytearray()
    for at in range(min(size, MOST_TEXT)):
        try:
            byte = accesses.peek(run, state, address, at)
        except Breach:
            return None
        if not byte.known:
            return None
        if not byte.value:
            break
        found.append(byte.value)
    return bytes(found)
