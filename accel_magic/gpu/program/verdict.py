"""The verifier's findings and verdict on a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.ptx.model import SourceLine


Severity = Literal["error", "warning", "note"]


PointerKind = Literal["stack", "map", "context"]


Place = tuple[int, int]
"""An instruction: (index of the function in `Program.functions`, slot)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One error, warning or note on a program.

    Attributes:
        rule: Id of the rule.
        severity: 'error' rejects the program in strict mode.
        program: Name of the program.
        function: Name of the function within it.
        slot: Instruction slot in the function.
        line: Source line, if known.
        message: What is wrong, one sentence without a period.
        fix: The fix.

    """

    rule: str
    severity: Severity
    program: str
    function: str
    slot: int
    line: SourceLine | None
    message: str
    fix: str

    @property
    def code(self) -> str:
        """Code of the error for this finding, e.g. `gpu.verifier.out-of-bounds-value`."""
        return f"gpu.verifier.{self.rule}"

    @property
    def where(self) -> str:
        """`file.c:12`, or the function and the slot if the line is not known."""
        if self.line is None:
            return f"{self.function}, instruction {self.slot}"
        return f"{self.line.file}:{self.line.line}"


@dataclass(frozen=True)
class Verdict:
    """The verifier's verdict on one program.

    Attributes:
        findings: Sorted by position in the program: functions in their order, slots ascending.
        promoted: Loads of updates that become one atomic operation.
        pointers: The kind of memory that each load, store and atomic accesses. Unreachable slots are left out, and
            slots that access the stack on one path and a map on another.
        stack_bytes: Bytes of stack of the deepest chain of calls.
        instructions: Number of instructions in all functions; a wide one counts once.

    """

    findings: tuple[Finding, ...] = ()
    promoted: frozenset[Place] = frozenset()
    pointers: Mapping[Place, PointerKind] = field(default_factory=lambda: MappingProxyType({}))
    stack_bytes: int = 0
    instructions: int = 0

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that reject the program in strict mode."""
        return tuple(finding for finding in self.findings if finding.severity == "error")
