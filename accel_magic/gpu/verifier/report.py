"""The verifier's report as plain text: what `--dry-run` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from accel_magic.gpu.model import Program
    from accel_magic.gpu.verifier.findings import Finding, Verdict

_ORDER: Final = ("error", "warning", "note")


def render(program: Program, verdict: Verdict, *, map_bytes: Mapping[str, int] | None = None) -> str:
    """Say what the verifier found in one program.

    Args:
        program: The program.
        verdict: What was found.
        map_bytes: Bytes of each map, from `budget.map_bytes`; left out without it.

    Returns:
        Lines without an end-of-line at the end: a summary, then each finding with its line of the source, why it is
        one, and what mends it.

    """
    return "\n".join(
        [*_summary(program, verdict, map_bytes), *(line for each in verdict.findings for line in _lines(each))]
    )


def _summary(program: Program, verdict: Verdict, map_bytes: Mapping[str, int] | None) -> Iterator[str]:
    yield f"{program.name} ({program.section}): {_counted(verdict.findings)}"
    yield f"  {_number(verdict.instructions, 'instruction')}, {_number(verdict.stack_bytes, 'byte')} of stack"
    if map_bytes is not None:
        each = ", ".join(f"{name} {size:,}" for name, size in map_bytes.items())
        yield f"  {_number(sum(map_bytes.values()), 'byte')} of maps{f' ({each})' if each else ''}"


def _counted(findings: Sequence[Finding]) -> str:
    counts = {severity: sum(each.severity == severity for each in findings) for severity in _ORDER}
    said = [_number(count, severity) for severity, count in counts.items() if count]
    return ", ".join(said) or "nothing found"


def _number(count: int, unit: str) -> str:
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def _lines(finding: Finding) -> Iterator[str]:
    yield f"{finding.severity}: {finding.where}: {finding.message} [{finding.rule}]"
    if finding.line is not None and finding.line.text.strip():
        yield f"  {finding.line.line:>5} | {finding.line.text.rstrip()}"
    yield f"    fix: {finding.fix}"
