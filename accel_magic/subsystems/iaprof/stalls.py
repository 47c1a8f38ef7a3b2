"""Where an Intel GPU's execution units stall, and why: an iaprof profile by kernel, instruction and reason.

A sample names the instruction that could not proceed, not the one it waited for: with `sbid` and `dist_acc` the cause
is an earlier instruction of the kernel, often a load.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.findings import Findings, diagnose
from accel_magic.findings import Evidence, Rule
from accel_magic.subsystems.iaprof.profile import FAILED_DECODE, REASONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from accel_magic.subsystems.iaprof.profile import IaprofProfile


IAPROF: Final = "intel/iaprof, eustall_collector.h of its first releases"
XE: Final = "Linux, drivers/gpu/drm/xe/xe_eu_stall.c: the counter's name only"


@dataclass(frozen=True, slots=True)
class Reason:
    """Meaning of one of the ten counters.

    Attributes:
        name: As in `REASONS`.
        short: What happened to the sampled instruction, in a few words.
        meaning: The same in more detail.
        advice: What to try if the count is large; '' if nothing.
        source: Where the meaning comes from.

    """

    name: str
    short: str
    meaning: str
    advice: str
    source: str = IAPROF


MEANINGS: Final = {
    reason.name: reason
    for reason in (
        Reason("active", "entered a pipeline: no stall", "entered a pipeline: work, not a stall", ""),
        Reason(
            "control",
            "waited for the branch unit",
            "waited for the branch unit to become free",
            "Branch less: unroll short loops, and make the lanes of a thread take the same branch.",
        ),
        Reason(
            "pipestall",
            "not accepted by its pipeline",
            "was next, but its arithmetic pipeline could not accept it, for example because operands share a register "
            "bank",
            "Mix kinds of instructions that use different pipelines; use fewer registers.",
        ),
        Reason(
            "send",
            "waited for the send unit",
            "waited for the unit that sends messages to memory and to other units",
            "Send fewer and larger messages: wider loads and stores, block loads, values kept in registers.",
        ),
        Reason(
            "dist_acc",
            "waited for the previous result",
            "waited for the result of an instruction right before it, or for an architecture register (accumulator)",
            "Put independent instructions in between: unroll, and process several values at once.",
        ),
        Reason(
            "sbid",
            "waited for a load, matrix or math result",
            "waited for an instruction of variable duration (a load, a matrix or math operation), through the software "
            "scoreboard",
            "Start loads earlier (prefetch, several in flight), make them hit the caches, or run more threads.",
        ),
        Reason(
            "sync",
            "waited for other threads",
            "waited for other threads: a barrier or a fence",
            "Use fewer barriers and smaller work-groups, and distribute work evenly between barriers.",
        ),
        Reason(
            "inst_fetch",
            "waited for the instruction cache",
            "waited for instructions to come from the instruction cache",
            "Make the kernel's loops smaller than the instruction cache: unroll and inline less.",
        ),
        Reason("other", "waited for something else", "waited for something without its own counter", ""),
        Reason(
            "tdr",
            "not documented",
            "waited, on Xe2, for something not publicly documented (TDR is a thread dependency register in Intel's "
            "instruction set)",
            "",
            XE,
        ),
    )
}


class StallTables:
    """Tables of a profile's stalls, created on first use."""

    def __init__(self, profile: IaprofProfile) -> None:
        self._profile = profile

    @cached_property
    def by_reason(self) -> pd.DataFrame:
        """One row per reason, with its meaning; see the function `by_reason`."""
        return by_reason(self._profile)

    @cached_property
    def by_kernel(self) -> pd.DataFrame:
        """One row per kernel; see the function `by_kernel`."""
        return by_kernel(self._profile)

    @cached_property
    def by_instruction(self) -> pd.DataFrame:
        """One row per instruction; see the function `by_instruction`."""
        return by_instruction(self._profile)

    @cached_property
    def samples(self) -> pd.DataFrame:
        """One row per `eustall` line of the profile, with its ten counts; see `IaprofProfile.samples`."""
        return self._profile.samples

    @cached_property
    def reasons(self) -> pd.DataFrame:
        """One row per `eustall` line and reason that it counts; see `IaprofProfile.reasons`."""
        return self._profile.reasons

    @cached_property
    def findings(self) -> Findings:
        """What the profile shows, most severe first."""
        return diagnose(RULES, self._profile)


def by_reason(profile: IaprofProfile) -> pd.DataFrame:
    """One row per reason, in the file's order, including reasons without samples.

    Columns: `reason`, `samples` int64, `share` of all samples, `stall_share` of all stalls (NaN for `active`), `short`
    and `meaning` (what happened to the sampled instruction), `advice`, `source`.
    """
    samples = np.array(profile.by_reason, np.int64)
    stalled = int(samples[1:].sum())
    return pd.DataFrame(
        {
            "reason": list(REASONS),
            "samples": samples,
            "share": samples / max(profile.total, 1),
            "stall_share": np.concatenate([[np.nan], samples[1:] / max(stalled, 1)]),
            "short": [MEANINGS[name].short for name in REASONS],
            "meaning": [MEANINGS[name].meaning for name in REASONS],
            "advice": [MEANINGS[name].advice for name in REASONS],
            "source": [MEANINGS[name].source for name in REASONS],
        }
    )


def by_kernel(profile: IaprofProfile) -> pd.DataFrame:
    """One row per kernel (symbol and file, wherever it was launched), sorted by samples, descending.

    Columns: `symbol`, `file`, `samples` int64, `share` of all samples, `active_share` of the kernel's own samples,
    `stall` (its most frequent reason other than `active`; '' if none) and that reason's `stall_share` of its own
    samples, then the ten reasons, int64.
    """
    groups, names = _kernel_groups(profile)
    counts = np.zeros((len(names), len(REASONS)), np.int64)
    np.add.at(counts, groups, profile.stalls.counts)
    table = pd.DataFrame(names, columns=["symbol", "file"]).astype(object)
    return _ordered(pd.concat([table, _judged(counts, profile.total)], axis=1))


def by_instruction(profile: IaprofProfile) -> pd.DataFrame:
    """One row per instruction of a kernel, sorted by samples, descending.

    Columns: `symbol`, `file`, `offset` uint64, `instruction`, then as in `by_kernel`.
    """
    groups, names = _kernel_groups(profile)
    stalls = profile.stalls
    keys = pd.DataFrame({"group": groups, "offset": stalls.offset, "instruction": stalls.instruction})
    places, first = _distinct(keys)
    counts = np.zeros((len(first), len(REASONS)), np.int64)
    np.add.at(counts, places, stalls.counts)
    one_of = [names[group] for group in groups[first].tolist()]
    table = pd.DataFrame(
        {
            "symbol": pd.Series([symbol for symbol, _ in one_of], dtype=object),
            "file": pd.Series([file for _, file in one_of], dtype=object),
            "offset": stalls.offset[first],
            "instruction": pd.Series(
                [profile.instructions[number] for number in stalls.instruction[first].tolist()], dtype=object
            ),
        }
    )
    return _ordered(pd.concat([table, _judged(counts, profile.total)], axis=1))


def _kernel_groups(profile: IaprofProfile) -> tuple[NDArray[np.int64], list[tuple[str, str]]]:
    """Group of each `eustall` line, (N,) int64, and each group's symbol and file."""
    names = list(dict.fromkeys((kernel.symbol, kernel.file) for kernel in profile.kernels))
    numbers = {name: number for number, name in enumerate(names)}
    of_kernel = np.array([numbers[kernel.symbol, kernel.file] for kernel in profile.kernels], np.int64)
    kernels = profile.runs.kernel[profile.stalls.run]
    return (of_kernel[kernels] if len(kernels) else np.zeros(0, np.int64)), names


def _distinct(keys: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Number of each row among the different rows, and where each of these is first."""
    places = keys.groupby(list(keys.columns), sort=False).ngroup().to_numpy()
    return places.astype(np.int64), np.unique(places, return_index=True)[1]


def _judged(counts: NDArray[np.int64], total: int) -> pd.DataFrame:
    """Sums, shares and the most frequent stall of rows of ten counts."""
    samples = counts.sum(axis=1)
    whole = np.maximum(samples, 1)
    worst = counts[:, 1:].argmax(axis=1) + 1
    most = counts[np.arange(len(counts)), worst]
    return pd.DataFrame(
        {
            "samples": samples,
            "share": samples / max(total, 1),
            "active_share": counts[:, 0] / whole,
            "stall": pd.Series(
                [REASONS[reason] if count else "" for reason, count in zip(worst, most, strict=True)], dtype=object
            ),
            "stall_share": most / whole,
            **{name: counts[:, column] for column, name in enumerate(REASONS)},
        }
    )


def _ordered(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values("samples", ascending=False, kind="stable", ignore_index=True)


ENOUGH: Final = 100
"""Fewer samples are too few for any share: at 100, a share of one half has an error of a tenth."""
_CHOSEN: Final = "our choice of what deserves a first look"
_LACKING: Final = f"too few samples (under {ENOUGH}) or no metrics in the profile"


def _stall_dominates(profile: IaprofProfile, rule: Rule[IaprofProfile]) -> Iterator[Evidence]:
    place = int(np.argmax(profile.by_reason[1:])) + 1
    share = profile.by_reason[place] / profile.total
    if share >= rule.threshold:
        reason = MEANINGS[REASONS[place]]
        yield Evidence(
            {
                "of_all_share": share,
                "samples": profile.by_reason[place],
                "name": reason.name,
                "meaning": reason.meaning,
                "advice": reason.advice or "See which instructions wait.",
            }
        )


def _kernel_dominates(profile: IaprofProfile, rule: Rule[IaprofProfile]) -> Iterator[Evidence]:
    row = by_kernel(profile).iloc[0]
    if row["share"] >= rule.threshold:
        yield Evidence(
            {
                "of_all_share": row["share"],
                "active_share": row["active_share"],
                "name": row["symbol"] or "a kernel without a name",
                "stall": row["stall"] or "no stall",
            }
        )


def _instruction_dominates(profile: IaprofProfile, rule: Rule[IaprofProfile]) -> Iterator[Evidence]:
    row = by_instruction(profile).iloc[0]
    if row["share"] >= rule.threshold:
        name = f"{row['instruction'] or 'an instruction'} at {int(row['offset']):#x} of {row['symbol'] or 'a kernel'}"
        yield Evidence(
            {
                "of_all_share": row["share"],
                "stall_share": row["stall_share"],
                "name": name,
                "stall": row["stall"],
            }
        )


def _busy_intervals(profile: IaprofProfile) -> pd.DataFrame:
    """The intervals with a known load."""
    return profile.interval_table.dropna(subset="busy_percent")


def _gpu_idle(profile: IaprofProfile, rule: Rule[IaprofProfile]) -> Iterator[Evidence]:
    table = _busy_intervals(profile)
    weights = table["length_ns"].to_numpy(np.float64)
    busy = np.average(table["busy_percent"].to_numpy(np.float64), weights=weights if weights.sum() else None) / 100
    if busy < rule.threshold:
        yield Evidence({"busy_share": float(busy), "intervals": len(table)})


def _frequencies(profile: IaprofProfile) -> NDArray[np.float64]:
    """(intervals,) MHz: frequency of the intervals that are at least half busy."""
    table = _busy_intervals(profile).dropna(subset="frequency_MHz")
    return table.loc[table["busy_percent"] >= 50, "frequency_MHz"].to_numpy(np.float64)


def _frequency_varies(profile: IaprofProfile, rule: Rule[IaprofProfile]) -> Iterator[Evidence]:
    values = _frequencies(profile)
    share = float(values.min() / values.max())
    if share < rule.threshold:
        yield Evidence({"of_highest_share": share, "lowest_MHz": values.min()})


def _instructions_unread(profile: IaprofProfile, rule: Rule[IaprofProfile]) -> Iterator[Evidence]:
    unread = [text in ("", FAILED_DECODE) for text in profile.instructions]
    return _chosen_share(profile, profile.stalls.instruction, unread, rule)


def _kernels_unnamed(profile: IaprofProfile, rule: Rule[IaprofProfile]) -> Iterator[Evidence]:
    return _of_kernels(profile, [not kernel.symbol for kernel in profile.kernels], rule)


def _launches_without_stack(profile: IaprofProfile, rule: Rule[IaprofProfile]) -> Iterator[Evidence]:
    frames = [[text for text in kernel.cpu_stack.split(";") if text] for kernel in profile.kernels]
    unusable = [sum(not text.startswith("0x") for text in stack) < 2 for stack in frames]
    return _of_kernels(profile, unusable, rule)


def _of_kernels(profile: IaprofProfile, chosen: Sequence[bool], rule: Rule[IaprofProfile]) -> Iterator[Evidence]:
    return _chosen_share(profile, profile.runs.kernel[profile.stalls.run], chosen, rule)


def _chosen_share(
    profile: IaprofProfile, numbers: NDArray[np.int32], chosen: Sequence[bool], rule: Rule[IaprofProfile]
) -> Iterator[Evidence]:
    """Yield the share of the samples whose number is among the chosen ones."""
    samples = int(profile.stalls.counts[np.array(chosen, np.bool_)[numbers]].sum())
    share = samples / profile.total
    if share >= rule.threshold:
        yield Evidence({"of_all_share": share, "samples": samples})


def _needs(known: Callable[[IaprofProfile], bool]) -> Callable[[IaprofProfile], str]:
    """What a rule needs of a profile: that its data is known."""
    return lambda profile: "" if known(profile) else _LACKING


_SAMPLES: Final = _needs(lambda profile: profile.total >= ENOUGH)
_STALLS: Final = _needs(lambda profile: profile.total >= ENOUGH and profile.total > profile.by_reason[0])
_LOAD: Final = _needs(lambda profile: len(_busy_intervals(profile)) > 0)
_FREQUENCIES: Final = _needs(lambda profile: len(values := _frequencies(profile)) > 1 and values.max() > 0)


RULES: Final = (
    Rule(
        "iaprof.stall-dominates",
        "warning",
        "{of_all_share:share} of the samples have one stall reason: {name}",
        "The sampled instruction {meaning}.",
        "{advice}",
        0.5,
        "of all samples",
        source=_CHOSEN,
        check=_stall_dominates,
        needs=_STALLS,
    ),
    Rule(
        "iaprof.kernel-dominates",
        "note",
        "{of_all_share:share} of the samples are in {name}",
        "{active_share:share} of its own samples are work; its most frequent stall: {stall}.",
        "Start with this kernel: all others together take less.",
        0.5,
        "of all samples",
        source=_CHOSEN,
        check=_kernel_dominates,
        needs=_SAMPLES,
    ),
    Rule(
        "iaprof.instruction-dominates",
        "note",
        "{of_all_share:share} of the samples are at {name}",
        "This instruction waits; {stall_share:share} of its samples are {stall}. With sbid and dist_acc the cause is "
        "an earlier instruction whose result it needs.",
        "Look up this offset in the kernel's assembly, and from there the instruction that produces its operands.",
        0.25,
        "of all samples",
        source=_CHOSEN,
        check=_instruction_dominates,
        needs=_SAMPLES,
    ),
    Rule(
        "iaprof.gpu-idle",
        "warning",
        "the GPU was busy {busy_share:share} of the time",
        "Stalls only describe the time when kernels ran; most of the time none did.",
        "Look at the CPU first: the stacks that launch kernels, `%%flame --off-cpu`. Try larger batches.",
        0.5,
        "of the time, from iaprof's busy-percent",
        source=_CHOSEN,
        check=_gpu_idle,
        needs=_LOAD,
    ),
    Rule(
        "iaprof.frequency-varies",
        "note",
        "while busy, the GPU's frequency fell to {of_highest_share:share} of its maximum",
        "Caused by power or temperature limits, or by a clock that was still ramping up: times measured at different "
        "frequencies are not comparable.",
        "Warm up first, and compare intervals with the same frequency.",
        0.8,
        "of the highest frequency, in intervals at least half busy",
        source=_CHOSEN,
        check=_frequency_varies,
        needs=_FREQUENCIES,
    ),
    Rule(
        "iaprof.instructions-unread",
        "note",
        "{of_all_share:share} of the samples are at instructions that iaprof could not decode",
        "iaprof did not get the code of these kernels, so their instructions have no names.",
        "Start iaprof before the kernels are compiled, and use the patched Level Zero runtime.",
        0.05,
        "of all samples",
        source=_CHOSEN,
        check=_instructions_unread,
        needs=_SAMPLES,
    ),
    Rule(
        "iaprof.kernels-unnamed",
        "note",
        "{of_all_share:share} of the samples are in unnamed kernels",
        "iaprof got no debug information for these kernels.",
        "Start iaprof before the kernels are compiled, and use the patched Level Zero runtime.",
        0.05,
        "of all samples",
        source=_CHOSEN,
        check=_kernels_unnamed,
        needs=_SAMPLES,
    ),
    Rule(
        "iaprof.launches-without-stack",
        "note",
        "{of_all_share:share} of the samples have no usable CPU stack",
        "The launching program or its libraries have no frame pointers, or no symbols.",
        "Build them with -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer; in Python 3.12 and later set "
        "PYTHONPERFSUPPORT=1.",
        0.25,
        "of all samples",
        source=_CHOSEN,
        check=_launches_without_stack,
        needs=_SAMPLES,
    ),
)
