"""The verifier: memory safety first, then SIMT safety, then resources."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from accel_magic.errors import ProgramError
from accel_magic.gpu.program.verdict import Verdict
from accel_magic.gpu.verifier import promotion, safety, simt, uniformity
from accel_magic.gpu.verifier.findings import judged, ordered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel_magic.gpu.program.model import MapSpec, Per, Program
    from accel_magic.gpu.program.verdict import Finding

Mode = Literal["strict", "warn", "off"]


def verify(program: Program, maps: Sequence[MapSpec], *, mode: Mode = "strict", per: Per = "thread") -> Verdict:
    """Judge one program.

    Args:
        program: The program with the functions it calls.
        maps: All maps of its object.
        mode: 'strict' refuses every error; 'warn' makes warnings of errors that cannot touch memory which is not the
            program's own: SIMT rules and loops without a visible end; 'off' checks nothing.
        per: Whether it runs in every thread, or in one lane of each warp.

    Raises:
        ProgramError: The program is refused; it names the line, the rule and the fix.

    """
    if mode == "off":
        return Verdict(instructions=_instructions(program))
    verdict = judge(program, maps, mode=mode, per=per)
    if verdict.errors:
        raise refusal(program, verdict.errors)
    return verdict


def judge(program: Program, maps: Sequence[MapSpec], *, mode: Mode = "strict", per: Per = "thread") -> Verdict:
    """Say all that is found, and refuse nothing: for reports. Takes what `verify` takes.

    Where memory is not safe, or a loop has no end, nothing is said about threads.
    """
    safe = safety.analyse(program, maps)
    findings = judged(safe.findings, mode)
    known = Verdict(findings, frozenset(), safe.facts.pointers, safe.facts.stack_bytes, _instructions(program))
    if known.errors:
        return known
    uniform = uniformity.analyse(program, maps, safe.graphs, safe.facts, per)
    loads, stores, notes = promotion.promoted(uniform)
    found = [*findings, *judged([*simt.findings(uniform, stores), *notes], mode)]
    return replace(known, findings=ordered(program, found), promoted=loads)


def refusal(program: Program, findings: Sequence[Finding]) -> ProgramError:
    """Make an error of what refuses a program: its first finding in full, and where the others are."""
    first, *others = findings
    text = f" `{first.line.text.strip()}`" if first.line is not None and first.line.text.strip() else ""
    more = "".join(f"\n       {other.where}: {other.message} [{other.rule}]" for other in others)
    return ProgramError(
        f"the program {program.name} is refused at {first.where}:{text}",
        why=f"{first.message} [{first.rule}]{more}",
        fix=first.fix,
        code=first.code,
    )


def _instructions(program: Program) -> int:
    return sum(instruction is not None for function in program.functions for instruction in function.code)
