"""What an iaprof profile shows, by rules with their limits: findings, each with its evidence and what to try."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.analysis.findings import SEVERITIES, BaseRule, Finding, Findings
from accel_magic.analysis.stalls import MEANINGS, by_instruction, by_kernel
from accel_magic.profiles.iaprof.model import FAILED_DECODE, REASONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from accel_magic.profiles.iaprof.model import IaprofProfile


@dataclass(frozen=True)
class Rule(BaseRule):
    """One thing to look for in a profile.

    Attributes:
        evidence: Numbers of a profile by name, of which the first is held to the limit, and words for the texts; None
            where the profile cannot tell.
        above: Whether it is found at the limit and above it, or below it.

    """

    AREA = "iaprof"

    source: str = "our choice: what is worth a look first"
    evidence: Callable[[IaprofProfile], _Evidence | None] = field(kw_only=True)
    above: bool = True


ENOUGH: Final = 100
"""Samples below which no share of them says anything: a share of one half then has an error of a tenth."""
_Evidence = tuple[dict[str, float], dict[str, str]]


def _worst_reason(profile: IaprofProfile) -> _Evidence | None:
    stalled = profile.total - profile.by_reason[0]
    if profile.total < ENOUGH or not stalled:
        return None
    place = int(np.argmax(profile.by_reason[1:])) + 1
    reason = MEANINGS[REASONS[place]]
    return (
        {"of_all_share": profile.by_reason[place] / profile.total, "samples": profile.by_reason[place]},
        {"name": reason.name, "meaning": reason.meaning, "advice": reason.advice or "See which instructions it is at."},
    )


def _worst_kernel(profile: IaprofProfile) -> _Evidence | None:
    table = by_kernel(profile).head(1)
    if profile.total < ENOUGH or not len(table):
        return None
    row = table.iloc[0]
    words = {"name": row["symbol"] or "a kernel without a name", "stall": row["stall"] or "no stall"}
    return {"of_all_share": row["share"], "active_share": row["active_share"]}, words


def _worst_instruction(profile: IaprofProfile) -> _Evidence | None:
    table = by_instruction(profile).head(1)
    if profile.total < ENOUGH or not len(table):
        return None
    row = table.iloc[0]
    name = f"{row['instruction'] or 'an instruction'} at {int(row['offset']):#x} of {row['symbol'] or 'a kernel'}"
    return {"of_all_share": row["share"], "stall_share": row["stall_share"]}, {"name": name, "stall": row["stall"]}


def _idle(profile: IaprofProfile) -> _Evidence | None:
    table = profile.interval_table.dropna(subset="busy_percent")
    if not len(table):
        return None
    weights = table["length_ns"].to_numpy(np.float64)
    busy = np.average(table["busy_percent"].to_numpy(np.float64), weights=weights if weights.sum() else None) / 100
    return {"busy_share": float(busy), "intervals": len(table)}, {}


def _slower(profile: IaprofProfile) -> _Evidence | None:
    table = profile.interval_table.dropna(subset=["busy_percent", "frequency_MHz"])
    values = table.loc[table["busy_percent"] >= 50, "frequency_MHz"].to_numpy(np.float64)
    if len(values) < 2 or not values.max():
        return None
    return {"of_highest_share": float(values.min() / values.max()), "lowest_MHz": values.min()}, {}


def _undecoded(profile: IaprofProfile) -> _Evidence | None:
    return _named_share(
        profile, profile.stalls.instruction, [text in ("", FAILED_DECODE) for text in profile.instructions]
    )


def _unnamed(profile: IaprofProfile) -> _Evidence | None:
    return _of_kernels(profile, [not kernel.symbol for kernel in profile.kernels])


def _without_stack(profile: IaprofProfile) -> _Evidence | None:
    frames = [[text for text in kernel.cpu_stack.split(";") if text] for kernel in profile.kernels]
    return _of_kernels(profile, [sum(not text.startswith("0x") for text in stack) < 2 for stack in frames])


def _of_kernels(profile: IaprofProfile, wanted: Sequence[bool]) -> _Evidence | None:
    return _named_share(profile, profile.runs.kernel[profile.stalls.run], wanted)


def _named_share(profile: IaprofProfile, numbers: NDArray[np.int32], wanted: Sequence[bool]) -> _Evidence | None:
    """Share of samples whose number is among the wanted ones."""
    if profile.total < ENOUGH:
        return None
    chosen = int(profile.stalls.counts[np.array(wanted, np.bool_)[numbers]].sum())
    return {"of_all_share": chosen / profile.total, "samples": chosen}, {}


RULES: Final = (
    Rule(
        "stall-dominates",
        "warning",
        "{of_all_share:.0%} of the samples wait for one reason: {name}",
        "The sampled instruction {meaning}.",
        "{advice}",
        0.5,
        "of all samples",
        evidence=_worst_reason,
    ),
    Rule(
        "kernel-dominates",
        "note",
        "{of_all_share:.0%} of the samples are in {name}",
        "Of its own samples {active_share:.0%} are work; its most frequent stall: {stall}.",
        "Begin with this kernel: the others together take less.",
        0.5,
        "of all samples",
        evidence=_worst_kernel,
    ),
    Rule(
        "instruction-dominates",
        "note",
        "{of_all_share:.0%} of the samples are at {name}",
        "This instruction waits, {stall_share:.0%} of the time for {stall}; with sbid and dist_acc the cause is an "
        "earlier instruction whose result it needs.",
        "Look up this offset in the kernel's assembly, and from there the instruction that makes its operands.",
        0.25,
        "of all samples",
        evidence=_worst_instruction,
    ),
    Rule(
        "gpu-idle",
        "warning",
        "the GPU was busy {busy_share:.0%} of the time",
        "Stalls are about the time when kernels ran; most of the time none did.",
        "Look at the CPU first: the stacks that launch kernels, `%%flame --off-cpu`, larger batches.",
        0.5,
        "of the time, by iaprof's busy-percent",
        evidence=_idle,
        above=False,
    ),
    Rule(
        "frequency-varies",
        "note",
        "while busy, the GPU's frequency fell to {of_highest_share:.0%} of its highest",
        "Power or temperature limits, or a clock that had not risen yet: times of different stretches do not compare.",
        "Warm up first, and compare stretches of the same frequency.",
        0.8,
        "of the highest frequency, in intervals that are busy for half of their time",
        evidence=_slower,
        above=False,
    ),
    Rule(
        "instructions-unread",
        "note",
        "{of_all_share:.0%} of the samples are at instructions that iaprof could not read",
        "iaprof did not get these kernels' code, so their instructions have no names.",
        "Start iaprof before the kernels are compiled, with the patched Level Zero runtime.",
        0.05,
        "of all samples",
        evidence=_undecoded,
    ),
    Rule(
        "kernels-unnamed",
        "note",
        "{of_all_share:.0%} of the samples are in kernels without a name",
        "iaprof got no debug information for these kernels.",
        "Start iaprof before the kernels are compiled, with the patched Level Zero runtime.",
        0.05,
        "of all samples",
        evidence=_unnamed,
    ),
    Rule(
        "launches-without-stack",
        "note",
        "{of_all_share:.0%} of the samples have no CPU stack to speak of",
        "The launching program or its libraries have no frame pointers, or no symbols.",
        "Build them with -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer; in Python 3.12 and later set "
        "PYTHONPERFSUPPORT=1.",
        0.25,
        "of all samples",
        evidence=_without_stack,
    ),
)


def findings(profile: IaprofProfile) -> Findings:
    """What the profile shows by the rules above, worst first. Rules that it has no data for are named as unchecked."""
    found: list[Finding] = []
    unchecked: dict[str, str] = {}
    for rule in RULES:
        told = rule.evidence(profile)
        if told is None:
            unchecked[rule.id] = f"too few samples (under {ENOUGH}) or no metrics in the profile"
        else:
            found += _finding(rule, *told)
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return Findings(tuple(found), tuple(rule.id for rule in RULES if rule.id not in unchecked), unchecked)


def _finding(rule: Rule, evidence: dict[str, float], words: dict[str, str]) -> Iterable[Finding]:
    value = next(iter(evidence.values()))
    if bool(value >= rule.threshold) == rule.above:
        yield rule.finding(evidence, {**evidence, **words})
