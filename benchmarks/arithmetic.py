"""What is made of the measured numbers: paired ratios, medians, spread, verdicts. No input or output."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = Literal["ratio", "speedup", "value"]
Verdict = Literal["met", "missed", "information"]


@dataclass(frozen=True)
class Measured:
    """One row of the results: the same thing measured in several rounds, each with the peer right beside it.

    Attributes:
        name: Name of the row, for `--only` and the JSON.
        what: What was measured, in words.
        unit: Of `ours` and `theirs`.
        ours: By round.
        peer: Whom we are compared with; empty where the value itself has the bar.
        theirs: By round, paired with `ours`; empty without a peer.
        kind: What the bar is about: `ratio` ours / theirs, at most; `speedup` theirs / ours, at least; `value` ours, at
            most.
        bar: None for information.
        note: What the reader must know besides.
        lost: Percentage of our events that were lost, by round; empty where nothing can be lost.
        peer_lost: The same of the peer's.

    """

    name: str
    what: str
    unit: str
    ours: tuple[float, ...]
    peer: str = ""
    theirs: tuple[float, ...] = ()
    kind: Kind = "value"
    bar: float | None = None
    note: str = ""
    lost: tuple[float, ...] = ()
    peer_lost: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.ours:
            raise ValueError(f"{self.name}: nothing was measured")
        if self.theirs and len(self.theirs) != len(self.ours):
            raise ValueError(f"{self.name}: {len(self.ours)} rounds of ours, {len(self.theirs)} of the peer's")
        if self.kind != "value" and not self.theirs:
            raise ValueError(f"{self.name}: a {self.kind} needs a peer")

    @property
    def compared(self) -> tuple[float, ...]:
        """What the bar is about, by round."""
        if self.kind == "value":
            return self.ours
        if self.kind == "ratio":
            return paired_ratios(self.ours, self.theirs)
        return paired_ratios(self.theirs, self.ours)

    @property
    def middle(self) -> float:
        """Median of `compared`; what is held against the bar."""
        return median(self.compared)

    @property
    def verdict(self) -> Verdict:
        """Whether the bar is met."""
        if self.bar is None:
            return "information"
        met = self.middle >= self.bar if self.kind == "speedup" else self.middle <= self.bar
        return "met" if met else "missed"


def paired_ratios(over: Sequence[float], under: Sequence[float]) -> tuple[float, ...]:
    """Ratio of each round; NaN where noise made either number nothing or less, so that no ratio can be told."""
    return tuple(high / low if min(high, low) > 0 else math.nan for high, low in zip(over, under, strict=True))


def median(values: Sequence[float]) -> float:
    """Median of the numbers that are numbers; NaN when there are none."""
    kept = [value for value in values if not math.isnan(value)]
    return statistics.median(kept) if kept else math.nan


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Lowest and highest of the numbers that are numbers."""
    kept = [value for value in values if not math.isnan(value)]
    return (min(kept), max(kept)) if kept else (math.nan, math.nan)


def cost_per_call(traced_ns: Sequence[float], untraced_ns: Sequence[float]) -> tuple[float, ...]:
    """What tracing adds to a call, ns by round: traced minus untraced of the same round."""
    return tuple(traced - untraced for traced, untraced in zip(traced_ns, untraced_ns, strict=True))


def cost_per_delivered(
    traced_ns: Sequence[float], untraced_ns: Sequence[float], calls: int, delivered: Sequence[int]
) -> tuple[float, ...]:
    """What tracing adds to all calls, over the events that arrived: ns by round, NaN where none did.

    A tool that drops events does less work for each call. Per call it would look the cheaper the more it drops.
    """
    added = cost_per_call(traced_ns, untraced_ns)
    return tuple(
        cost * calls / arrived if arrived else math.nan for cost, arrived in zip(added, delivered, strict=True)
    )


def lost_percent(calls: int, delivered: Sequence[int]) -> tuple[float, ...]:
    """Percentage of the calls whose event did not arrive, by round; others' calls can only make it 0."""
    return tuple(100 * max(calls - arrived, 0) / calls for arrived in delivered)
