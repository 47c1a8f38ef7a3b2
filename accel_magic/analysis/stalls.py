"""Where an Intel GPU's execution units wait, and for what: an iaprof profile by kernel, instruction and reason.

A sample names the instruction that could not go on, not the one it waited for: with `sbid` and `dist_acc` the cause
stands earlier in the kernel, often a load.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.profiles.iaprof.model import REASONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.findings import Findings
    from accel_magic.profiles.iaprof.model import IaprofProfile

IAPROF: Final = "intel/iaprof, eustall_collector.h of its first releases"
XE: Final = "Linux, drivers/gpu/drm/xe/xe_eu_stall.c: the counter's name only"


@dataclass(frozen=True, slots=True)
class Reason:
    """What one of the ten counters says.

    Attributes:
        name: As in `REASONS`.
        short: What the sampled instruction did, in few words.
        meaning: The same in more words.
        advice: What to try where it is large; '' where nothing follows from it.
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
        Reason("active", "went into a pipeline: no stall", "went into a pipeline: that is work, no stall", ""),
        Reason(
            "control",
            "waited for the branch unit",
            "waited for the branch unit to become free",
            "Branch less: unroll short loops, and let lanes of a thread take the same way.",
        ),
        Reason(
            "pipestall",
            "was not taken by its pipeline",
            "was next, but its arithmetic pipeline could not take it, as when operands share a register bank",
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
            "waited for a result right before it",
            "waited for a result of an instruction right before it, or for an architecture register (accumulator)",
            "Put independent instructions between: unroll, and work on several values at once.",
        ),
        Reason(
            "sbid",
            "waited for a load, matrix or math result",
            "waited for an instruction of no fixed duration (a load, a matrix or math operation) through the software "
            "scoreboard",
            "Start loads earlier (prefetch, several in flight), make them hit the caches, or have more threads.",
        ),
        Reason(
            "sync",
            "waited for other threads",
            "waited for other threads: a barrier or a fence",
            "Use fewer barriers, smaller work-groups, and even work for all threads between two barriers.",
        ),
        Reason(
            "inst_fetch",
            "waited for the instruction cache",
            "waited for instructions to come from the instruction cache",
            "Make the kernel's loops smaller than the instruction cache: unroll and inline less.",
        ),
        Reason("other", "waited for something else", "waited for something that has no counter of its own", ""),
        Reason(
            "tdr",
            "not documented",
            "waited, on Xe2, for what no public text says (TDR is a thread dependency register in Intel's instruction "
            "set)",
            "",
            XE,
        ),
    )
}


class StallTables:
    """Tables of a profile's stalls, made when first asked for: what `IaprofResult.stalls` is."""

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
        """What the profile shows, worst first."""
        from accel_magic.analysis.stall_findings import findings

        return findings(self._profile)

    def __repr__(self) -> str:
        """Plain text: reasons, kernels and instructions with most samples."""
        from accel_magic.views.stalls import tables_text

        return tables_text(self)

    def _repr_html_(self) -> str:
        """Show the same as HTML."""
        from accel_magic.views.stalls import tables_html

        return tables_html(self)


def by_reason(profile: IaprofProfile) -> pd.DataFrame:
    """One row per reason, in the file's order, with samples or not.

    Columns: `reason`, `samples` int64, `share` of all samples, `stall_share` of those that are stalls (NaN for
    `active`), `short` and `meaning` (what the sampled instruction did), `advice`, `source`.
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
    """One row per kernel (its symbol and file, from wherever it was launched), the most samples first.

    Columns: `symbol`, `file`, `samples` int64, `share` of all samples, `active_share` of its own, `stall` (the most
    frequent reason but `active`; '' for none) and `stall_share` of its own samples, then the ten reasons int64.
    """
    groups, names = _kernel_groups(profile)
    counts = np.zeros((len(names), len(REASONS)), np.int64)
    np.add.at(counts, groups, profile.stalls.counts)
    table = pd.DataFrame(names, columns=["symbol", "file"]).astype(object)
    return _ordered(pd.concat([table, _judged(counts, profile.total)], axis=1))


def by_instruction(profile: IaprofProfile) -> pd.DataFrame:
    """One row per instruction of a kernel, the most samples first.

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
