"""Evidence about the recording itself: what it lacks, and what that does to the analyses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.analysis.npu.evidence.common import Evidence

if TYPE_CHECKING:
    from accel_magic.analysis.npu.evidence.common import Analysed
    from accel_magic.analysis.npu.rules import Rule

_DRIVER = "ivpu_"


def nothing_traced(npu: Analysed, _: Rule) -> Evidence | None:
    """No function of the driver was hit."""
    driver = npu.trace.counts[npu.trace.counts.index.str.startswith(_DRIVER)]
    if driver.sum() > 0:
        return None
    return Evidence({"functions": len(driver), "hits": int(npu.trace.counts.sum())})


def events_lost(npu: Analysed, _: Rule) -> Evidence | None:
    """The buffer was full."""
    lost, total = npu.trace.lost, int(npu.trace.counts.sum())
    return Evidence({"lost": lost, "hits": total, "lost_share": lost / max(total, 1)}) if lost else None


def event_limit(npu: Analysed, _: Rule) -> Evidence | None:
    """The limit that the user set, or the default one, was reached."""
    if not npu.recording.limit_reached:
        return None
    recorded, total = len(npu.trace.events), int(npu.trace.counts.sum())
    return Evidence({"recorded": recorded, "hits": total, "recorded_share": recorded / max(total, 1)})


def hits_missed(npu: Analysed, rule: Rule) -> Evidence | None:
    """The kernel ran no program for them."""
    missed, total = npu.trace.missed, int(npu.trace.counts.sum())
    share = missed / max(missed + total, 1)
    return Evidence({"missed": missed, "hits": total, "missed_share": share}) if share >= rule.threshold else None
