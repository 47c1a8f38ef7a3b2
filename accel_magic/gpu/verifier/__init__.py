"""The verifier: memory safety first, then SIMT safety, then resources."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from accel_magic.errors import ProgramError
from accel_magic.gpu.program.verdict import Verdict
from accel_magic.gpu.verifier import blocks, promotion, safety, simt, uniformity
from accel_magic.gpu.verifier.findings import judged, ordered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel_magic.gpu.program.object_model import EbpfProgram, MapSpec, Per
    from accel_magic.gpu.program.verdict import VerifierFinding

Mode = Literal["strict", "warn", "off"]


def verify(program: EbpfProgram, maps: Sequence[MapSpec], *, mode: Mode = "strict", per: Per = "thread") -> Verdict:
    """Verify one program.

    Args:
        program: The program with the functions it calls.
        maps: All maps of its object.
        mode: 'strict' rejects the program for every error; 'warn' turns errors that do not concern memory safety (SIMT
            rules, loops that may not end, print formats) into warnings; 'off' checks nothing.
        per: Whether it runs in every thread, in one lane of each warp, or once for whole blocks, one at a time.

    Raises:
        ProgramError: The program is rejected; the error names the line, the rule and the fix.

    """
    if mode == "off":
        return Verdict(instructions=_instructions(program))
    verdict = judge(program, maps, mode=mode, per=per)
    if verdict.errors:
        raise refusal(program, verdict.errors)
    return verdict


def judge(program: EbpfProgram, maps: Sequence[MapSpec], *, mode: Mode = "strict", per: Per = "thread") -> Verdict:
    """Return all findings without rejecting the program, for reports. Takes the same arguments as `verify`.

    If the memory analysis reports errors, the SIMT rules are not checked.
    """
    safe = safety.analyse(program, maps)
    findings = judged(safe.findings, mode)
    known = Verdict(findings, frozenset(), safe.facts.pointers, safe.facts.stack_bytes, _instructions(program))
    if known.errors:
        return known
    if per == "block":
        return replace(known, findings=ordered(program, [*findings, *judged(blocks.findings(program), mode)]))
    uniform = uniformity.analyse(program, maps, safe.graphs, safe.facts, per)
    loads, stores, notes = promotion.promoted(uniform)
    found = [*findings, *judged([*simt.findings(uniform, stores), *notes], mode)]
    return replace(known, findings=ordered(program, found), promoted=loads)


def refusal(program: EbpfProgram, findings: Sequence[VerifierFinding]) -> ProgramError:
    """Make an error from the findings that reject a program: the first with its fix, the others with their places."""
    first, *others = findings
    text = f" `{first.line.text.strip()}`" if first.line is not None and first.line.text.strip() else ""
    more = "".join(f"\n       {other.where}: {other.message} [{other.rule}]" for other in others)
    return ProgramError(
        f"the verifier rejects {program.name} at {first.where}:{text}",
        why=f"{first.message} [{first.rule}]{more}",
        fix=first.fix,
        code=first.code,
    )


def _instructions(program: EbpfProgram) -> int:
    return sum(instruction is not None for function in program.functions for instruction in function.code)
