"""The verifier's findings and verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.ptx.ptx_model import SourceLine


Severity = Literal["error", "warning", "note"]


PointerKind = Literal["stack", "map", "context", "object"]


Place = tuple[int, int]
"""An instruction: the function's index in `Program.functions`, and the slot."""


@dataclass(frozen=True, slots=True)
class VerifierFinding:
    """A problem in a program, or a note about it.

    Attributes:
        rule: Id of the rule.
        severity: In strict mode, an 'error' rejects the program.
        program: Name of the program.
        function: Name of the function within it.
        slot: Instruction slot in the function.
        line: Source line, if known.
        message: What is wrong here, one sentence without a period.
        fix: How to fix it.

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
        """Code of the error that rejects the program because of it, e.g. `gpu.verifier.out-of-bounds-value`."""
        return f"gpu.verifier.{self.rule}"

    @property
    def where(self) -> str:
        """`file.c:12`, or the function and the slot if the line is unknown."""
        if self.line is None:
            return f"{self.function}, instruction {self.slot}"
        return f"{self.line.file}:{self.line.line}"


@dataclass(frozen=True)
class Verdict:
    """The verifier's result for one program.

    Attributes:
        findings: Sorted by function and slot.
        promoted: Loads whose load, arithmetic and store are to become one atomic operation.
        pointers: What each load, store and atomic points to. Omitted: slots that are never reached, and slots that
            access different kinds of memory on different paths.
        stack_bytes: Bytes of stack that the deepest call chain needs.
        instructions: Instructions in all functions; a wide one counts once.

    """

    findings: tuple[VerifierFinding, ...] = ()
    promoted: frozenset[Place] = frozenset()
    pointers: Mapping[Place, PointerKind] = field(default_factory=lambda: MappingProxyType({}))
    stack_bytes: int = 0
    instructions: int = 0

    @property
    def errors(self) -> tuple[VerifierFinding, ...]:
        """The findings that reject the program."""
        return tuple(finding for finding in self.findings if finding.severity == "error")
