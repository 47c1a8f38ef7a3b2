"""What the verifier found in a program: findings and the verdict."""

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
"""An instruction: the function's place in `Program.functions`, and the slot."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a program, or worth knowing.

    Attributes:
        rule: Id of the rule.
        severity: 'error' refuses the program in strict mode.
        program: Name of the program.
        function: Name of the function within it.
        slot: Instruction slot in the function.
        line: Line of the source, where it is known.
        message: What is wrong here, one sentence without a full stop.
        fix: What mends it.

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
        """E.g. `gpu.verifier.out-of-bounds`: the code of the error that refuses the program because of it."""
        return f"gpu.verifier.{self.rule}"

    @property
    def where(self) -> str:
        """`file.c:12`, or the function and the slot where the line is not known."""
        if self.line is None:
            return f"{self.function}, instruction {self.slot}"
        return f"{self.line.file}:{self.line.line}"


@dataclass(frozen=True)
class Verdict:
    """What the verifier found in one program.

    Attributes:
        findings: By place in the program: functions in their order, slots ascending.
        promoted: Loads that begin a load, arithmetic and store that is to be one atomic.
        pointers: What each load, store and atomic points to. Left out: slots that are never reached, and slots that
            reach the stack on one path and a map on another.
        stack_bytes: Bytes of stack that the deepest chain of calls needs.
        instructions: Instructions of all functions; a wide one counts once.

    """

    findings: tuple[Finding, ...] = ()
    promoted: frozenset[Place] = frozenset()
    pointers: Mapping[Place, PointerKind] = field(default_factory=lambda: MappingProxyType({}))
    stack_bytes: int = 0
    instructions: int = 0

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Those that refuse the program."""
        return tuple(finding for finding in self.findings if finding.severity == "error")
