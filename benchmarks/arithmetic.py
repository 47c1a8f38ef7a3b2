"""Evaluation of measurements: paired ratios, medians, ranges, verdicts. No I/O."""

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
    """One row of the results: a quantity measured in several rounds, each paired with the peer's.

    Attributes:
        name: Name of the row in the output and the JSON.
        what: Description of the quantity.
        unit: Unit of `ours` and `theirs`.
        ours: Our value in each round.
        peer: Name of the peer; empty if the bar applies to our value.
        theirs: The peer's value in each round, paired with `ours`; empty without a peer.
        kind: What the bar applies to: `ratio`: ours / theirs, at most; `speedup`: theirs / ours, at least; `value`:
            ours, at most.
        bar: The target; None if the row is for information.
        note: Further information for the reader.
        lost: Percentage of our events lost in each round; empty if events cannot be lost.
        peer_lost: Likewise for the peer.

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
            raise ValueError(f"{self.name}: {len(self.ours)} of our rounds, {len(self.theirs)} of the peer's")
        if self.kind != "value" and not self.theirs:
            raise ValueError(f"{self.name}: a {self.kind} needs a peer")

    @property
    def compared(self) -> tuple[float, ...]:
        """The values that the bar applies to, by round."""
        if self.kind == "value":
            return self.ours
        if self.kind == "ratio":
            return paired_ratios(self.ours, self.theirs)
        return paired_ratios(self.theirs, self.ours)

    @property
    def middle(self) -> float:
        """Median of `compared`; this is compared with the bar."""
        return median(self.compared)

    @property
    def verdict(self) -> Verdict:
        """Whether the bar is met."""
        if self.bar is None:
            return "information"
        met = self.middle >= self.bar if self.kind == "speedup" else self.middle <= self.bar
        return "met" if met else "missed"


def paired_ratios(over: Sequence[float], under: Sequence[float]) -> tuple[float, ...]:
    """Ratio of each round; NaN if either number is zero or negative because of noise."""
    return tuple(high / low if min(high, low) > 0 else math.nan for high, low in zip(over, under, strict=True))


def median(values: Sequence[float]) -> float:
    """Median, ignoring NaN; NaN if there are no numbers."""
    kept = [value for value in values if not math.isnan(value)]
    return statistics.median(kept) if kept else math.nan


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Minimum and maximum, ignoring NaN."""
    kept = [value for value in values if not math.isnan(value)]
    return (min(kept), max(kept)) if kept else (math.nan, math.nan)


def cost_per_call(traced_ns: Sequence[float], untraced_ns: Sequence[float]) -> tuple[float, ...]:
    """Added time per call in ns, by round: traced minus untraced of the same round."""
    return tuple(traced - untraced for traced, untraced in zip(traced_ns, untraced_ns, strict=True))


def cost_per_delivered(
    traced_ns: Sequence[float], untraced_ns: Sequence[float], calls: int, delivered: Sequence[int]
) -> tuple[float, ...]:
    """Added time of all calls, divided by the events that arrived: ns by round; NaN if none arrived.

    A tool that drops events does less work per call; its cost per call would decrease the more it drops.
    """
    added = cost_per_call(traced_ns, untraced_ns)
    return tuple(
        cost * calls / arrived if arrived else math.nan for cost, arrived in zip(added, delivered, strict=True)
    )


def lost_percent(calls: int, delivered: Sequence[int]) -> tuple[float, ...]:
    """Percentage of calls whose event did not arrive, by round; at least 0, even with calls of other processes."""
    return tuple(100 * max(calls - arrived, 0) / calls for arrived in delivered)
