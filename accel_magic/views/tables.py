"""The tables of a result as formatted cells: the text and the HTML view only lay them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from accel_magic.demangle import readable
from accel_magic.profiles.labels import label
from accel_magic.views.format import NOTHING, duration_text, exact_text, rate_text, ratio_text, share_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.profiles.model import Frame
    from accel_magic.traces.compare import Comparison
    from accel_magic.traces.result import TraceResult

    Formats = Mapping[str, tuple[str, Callable[..., str]]]


MANY = 10
_ENTRY = ("do_syscall_64", "entry_SYSCALL_64_after_hwframe", "x64_sys_call")


@dataclass(frozen=True)
class Table:
    """Formatted cells: the first `names` columns are names (to the left), the others numbers (to the right).

    `rows` is cut at the limit asked for; `more` counts the rows left out, `silent` those left out for having no hit.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int
    more: int = 0
    silent: int = 0


def counts_table(result: TraceResult, limit: int) -> Table:
    """Hits and rates per probe point, most hits first; lost events where there were any."""
    formats: Formats = {"hits": ("hits", exact_text)}
    if result.recording.timed:
        formats = {**formats, "rate": ("rate", rate_text)}
    if result.recording.lost.any():
        formats = {**formats, "lost": ("lost", exact_text)}
    return _table(result.counts, formats, limit, "hits")


def latency_table(result: TraceResult, limit: int) -> Table:
    """Latencies per measured function, most calls first; calls still under way where there were any."""
    frame = result.latency.sort_values("count", ascending=False, kind="stable")
    formats: Formats = {
        "count": ("calls", exact_text),
        **{name: (name, duration_text) for name in ("mean", "p50", "p90", "p99", "max")},
    }
    if frame["unfinished"].any():
        formats = {**formats, "unfinished": ("unfinished", exact_text)}
    return _table(frame, formats, limit, "count")


def waits_table(result: TraceResult, limit: int) -> Table:
    """Why threads waited, the longest total first."""
    formats: Formats = {
        "waits": ("waits", exact_text),
        **{name: (name, duration_text) for name in ("total", "mean", "longest")},
    }
    return _table(result.waits, formats, limit)


def stacks_table(result: TraceResult, limit: int) -> Table:
    """Stacks of the events, the most frequent first: the user's own line, what it led to, and durations if measured."""
    frame = result.stacks
    innermost = pd.Series([label(_innermost(frames)) for frames in frame["frames"]], dtype=object)
    named = frame.assign(innermost=innermost).set_index(["where", "innermost"])
    formats: Formats = {"stack": ("stack", str), "hits": ("hits", exact_text)}
    if "total" in frame:
        formats = {**formats, **{name: (name, duration_text) for name in ("total", "mean", "p50", "p99")}}
    return _table(named, formats, limit)


def _innermost(frames: tuple[Frame, ...]) -> Frame:
    """Give the frame that says most: where the kernel was just entered, the function that entered it."""
    return next((frame for frame in reversed(frames) if frame.name not in _ENTRY), frames[-1])


def comparison_table(comparison: Comparison, limit: int) -> Table:
    """Both traces' hits, how the rate changed, and the same for p50 and p99 where either trace measured them.

    What changed for sure comes first, and says so in the last column.
    """
    formats: Formats = {
        "hits": ("hits", _count_or_nothing),
        "baseline_hits": ("baseline", _count_or_nothing),
        "rate_ratio": ("rate ratio", ratio_text),
    }
    for name in ("p50", "p99"):
        if comparison.table[[name, f"baseline_{name}"]].notna().any(axis=None):
            formats = {
                **formats,
                name: (name, duration_text),
                f"baseline_{name}": ("baseline", duration_text),
                f"{name}_ratio": (f"{name} ratio", ratio_text),
            }
    return _table(_changed_first(comparison.table), {**formats, "changed": ("sure change", str)}, limit)


def comparison_families_table(comparison: Comparison, limit: int) -> Table:
    """Both traces' hits and shares per family of the NPU driver, and how the rate changed; sure changes first."""
    formats: Formats = {
        "hits": ("hits", _count_or_nothing),
        "baseline_hits": ("baseline", _count_or_nothing),
        "share": ("share", share_text),
        "baseline_share": ("baseline", share_text),
        "rate_ratio": ("rate ratio", ratio_text),
        "changed": ("sure change", str),
    }
    return _table(_changed_first(comparison.families), formats, limit)


def _changed_first(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with a sure change before the others, each in their order; `changed` names what did."""
    columns = map(str, frame.columns)
    named = {column: column.removesuffix("_confident") for column in columns if column.endswith("_confident")}
    flags = {name: frame[column].to_numpy() for column, name in named.items()} or {
        "rate": frame["confident"].to_numpy()
    }
    words = [", ".join(name for name, flag in flags.items() if flag[row]) or NOTHING for row in range(len(frame))]
    marked = frame.assign(changed=words)
    return marked.sort_values("confident", ascending=False, kind="stable")


def _table(frame: pd.DataFrame, formats: Formats, limit: int, count: str = "") -> Table:
    """Lay out the first `limit` rows of a frame indexed by names, as (probe, function).

    Among many rows (a glob may match hundreds) those whose `count` is 0 say nothing, and only their number is given.
    """
    total = len(frame)
    if count and total > MANY:
        frame = frame[frame[count] > 0]
    shown = frame.head(limit)
    cells = [[text(value) for value in shown[column]] for column, (_, text) in formats.items()]
    levels = [str(name) for name in shown.index.names]
    names = [[str(name) for name in shown.index.get_level_values(level)] for level in levels]
    names = [
        list(map(readable, column)) if level == "function" else column
        for level, column in zip(levels, names, strict=True)
    ]
    return Table(
        heads=(*levels, *(head for head, _ in formats.values())),
        rows=tuple(zip(*names, *cells, strict=True)),
        names=len(levels),
        more=len(frame) - len(shown),
        silent=total - len(frame),
    )


def _count_or_nothing(count: int) -> str:
    return "-" if pd.isna(count) else exact_text(count)
