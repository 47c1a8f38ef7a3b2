"""What the GPU tools are made to find, as data: limits, where they come from, and what to try."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.analysis.findings import BaseRule

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Rule(BaseRule):
    """One thing to look for in the table of `tool`."""

    AREA = "gpu"

    tool: str = field(kw_only=True)


_TABLE: Final = (
    Rule(
        "threads-imbalanced",
        "warning",
        "{name}: one thread works {ratio:.1f} times as long as the others on average",
        "A kernel ends with its last thread, and a warp with its slowest lane: the others wait.",
        "Give each thread the same share: loop with a stride of the grid, or split long rows among the lanes of a "
        "warp.",
        tool="threadhist",
        threshold=2.0,
        unit="times the mean cycles of a thread",
        source="at twice the mean, half of the lanes' time is waiting",
    ),
    Rule(
        "exits-diverge",
        "warning",
        "{name}: lanes of a warp leave {share:.0%} of the launch's time apart",
        "A warp holds its registers and its slot until its last lane leaves.",
        "Let lanes of a warp take the same way out: test per warp or per block, or sort the work by its length.",
        tool="kernelretsnoop",
        threshold=0.25,
        unit="of the time between a launch's first and last exit, median over its warps",
        source="below a quarter other warps fill the gap",
    ),
    Rule(
        "launches-dominate",
        "warning",
        "launching takes {ratio:.1f} times as long as the kernels",
        "From the host's call to the first instruction passes more time than the kernels need.",
        "Launch fewer and larger kernels: fuse them, batch the work, or record a graph of launches.",
        tool="launchlate",
        threshold=1.0,
        unit="times the kernels' own time, over 5 launches at least",
        source="above 1 the device waits more than it works",
    ),
    Rule(
        "accesses-scattered",
        "warning",
        "{name}: {operation} at {place} moves {ratio:.1f} times the sectors that its bytes need",
        "The lanes of a warp touch addresses far apart; memory moves whole sectors of 32 bytes.",
        "Let neighbouring lanes touch neighbouring addresses: change the loop order or the layout, or go through "
        "shared memory.",
        tool="memtrace",
        threshold=2.0,
        unit="times the fewest sectors that hold the bytes, over 8 requests at least",
        source="an offset by part of a sector costs less than twice",
    ),
    Rule(
        "banks-conflict",
        "warning",
        "{name}: {operation} at {place} takes {ratio:.1f} times the passes of shared memory that its bytes need",
        "Lanes ask one bank of shared memory for different words, and wait for each other.",
        "Put one unused element behind each row of the array, `tile[32][33]`, or swizzle the index.",
        tool="memtrace",
        threshold=2.0,
        unit="times the fewest passes, over 8 requests at least",
        source="two words of one bank halve the bandwidth (CUDA C++ Programming Guide, shared memory)",
    ),
    Rule(
        "blocks-imbalanced",
        "warning",
        "{name}: the multiprocessors are idle for {share:.0%} of the launch's time",
        "Blocks differ in length, or do not divide evenly: some multiprocessors have ended while others still work.",
        "Use more and smaller blocks, let blocks take work from a counter, or order the long ones first.",
        tool="blocktime",
        threshold=0.3,
        unit="of the multiprocessors' time between a launch's first and last block",
        source="a last wave that is half full, of two, leaves a quarter",
    ),
    Rule(
        "lanes-unused",
        "warning",
        "{name}: {share:.0%} of the lanes of its warps are empty",
        "A warp has 32 lanes whether threads fill them or not.",
        "Make the block a multiple of 32 threads.",
        tool="warpmap",
        threshold=0.25,
        unit="of all lanes",
        source="a block of 96 threads and more that is no multiple of 32 leaves less",
    ),
    Rule(
        "kernels-tiny",
        "note",
        "{name}: {launches:.0f} launches of {warps:.1f} warps on average",
        "Each launch fills only a small part of the device.",
        "Give a launch more work, or launch several on streams of their own.",
        tool="kernelcount",
        threshold=4.0,
        unit="warps for each multiprocessor, over 5 launches at least",
        source="a multiprocessor has four schedulers",
    ),
    Rule(
        "function-dominates",
        "note",
        "{name} takes {share:.0%} of the threads' time",
        "Most of the time passes inside one device function.",
        "Look there first: its loop, its divisions, its memory accesses.",
        tool="funclat",
        threshold=0.6,
        unit="of the cycles of all threads in device functions",
        source="more than half: nothing else can matter as much",
    ),
    Rule(
        "branches-diverge",
        "warning",
        "{name}: the branch at {place} splits {share:.0%} of the warps that reach it",
        "The lanes of a warp go both ways, so the warp runs both, one after the other.",
        "Branch on what is the same in a warp (the block, the warp's number), or compute both sides without a branch.",
        tool="branchdiv",
        threshold=0.25,
        unit="of the warps that reach it, 8 at least",
        source="an edge of the grid splits one warp in many",
    ),
    Rule(
        "launches-awaited",
        "warning",
        "{share:.0%} of the launches are waited for before the next one",
        "The device stands still from the end of a kernel until the next launch has reached it.",
        "Launch without waiting, and synchronise where the host needs a result: a stream keeps its order by itself.",
        tool="api",
        threshold=0.5,
        unit="of the launches that another of the same thread follows, 5 at least",
        source="at half, the device stands still after every second kernel",
    ),
    Rule(
        "copies-small",
        "warning",
        "{copies:,.0f} small copies take {share:.0%} of the time in host calls",
        "Each takes about as long as a launch, which carries nothing: it is the call that costs, not the bytes.",
        "Put what is copied together into one piece, or keep it on the device between kernels.",
        tool="api",
        threshold=0.5,
        unit="of the time in calls that do not wait, in copies no longer than 2 median launches, 5 at least",
        source="more than half: nothing else can matter as much",
    ),
    Rule(
        "copies-staged",
        "warning",
        "copies that should only be queued hold the host {ratio:.1f} times as long as launches",
        "From or to pageable memory the driver copies through a buffer of its own, and the call returns only then.",
        "Use page-locked memory (cuMemHostAlloc, pin_memory() in PyTorch), or fewer and larger copies.",
        tool="api",
        threshold=4.0,
        unit="times a launch's call, medians over 5 of each at least",
        source="both are only queued: what takes several times as long does more than that",
    ),
)
RULES: Final[Mapping[str, Rule]] = MappingProxyType({rule.id: rule for rule in _TABLE})
"""All of them by name; every tool has one or more."""
