"""The tables of a trace as formatted cells; the text and HTML views only lay them out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from accel_magic import terminal
from accel_magic.demangle import distinct
from accel_magic.quantities import NOTHING, duration_text, exact_text, rate_text, ratio_text, share_text, shortened
from accel_magic.recording.profile import label

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.kernel.stacks.frames import Frame
    from accel_magic.recording.recording import Recording

    Formats = Mapping[str, tuple[str, Callable[..., str]]]


MANY = 10
_ENTRY = ("do_syscall_64", "entry_SYSCALL_64_after_hwframe", "x64_sys_call")


@dataclass(frozen=True)
class TraceTables:
    """What is shown of a trace.

    Attributes:
        recording: The whole recording.
        counts: As `TraceResult.counts`.
        latency: As `TraceResult.latency`.
        waits: As `TraceResult.waits`.
        stacks: As `TraceResult.stacks`; None if no stacks were taken.
        stacks_lost: Events whose stack did not fit into the kernel's table.
        subsystems: Makes the lines of the subsystems that were traced; called only if all events can be loaded.
        answers: Makes the tables of the subsystems whose presets were asked for, which lead; as `subsystems`.
        only_presets: Whether nothing but these presets was asked for: counts and latencies fold below the answers.
        nodes: What is shown of the first nodes, by name; empty if it is not a trace of nodes.
        whole: Whether all events can be loaded; if not, nothing is analyzed.

    """

    recording: Recording
    counts: pd.DataFrame
    latency: pd.DataFrame
    waits: pd.DataFrame
    stacks: pd.DataFrame | None
    stacks_lost: int
    subsystems: Callable[[], list[str]]
    answers: Callable[[], list[FormattedTable]] = list
    only_presets: bool = False
    nodes: Mapping[str, TraceTables] = field(default_factory=dict)
    whole: bool = True


@dataclass(frozen=True)
class FormattedTable:
    """Formatted cells: the first `names` columns are names (left-aligned), the others numbers (right-aligned).

    `rows` is cut at a limit; `more` counts the rows beyond it, `silent` the rows omitted because they have no hits.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int
    more: int = 0
    silent: int = 0

    @property
    def shown_rows(self) -> tuple[tuple[str, ...], ...]:
        """The rows that HTML shows; `folded_rows` are collapsed below."""
        return self.rows[:SHOWN_ROWS]

    @property
    def folded_rows(self) -> tuple[tuple[str, ...], ...]:
        """The rows after `shown_rows`."""
        return self.rows[SHOWN_ROWS:]


def counts_table(counts: pd.DataFrame, limit: int) -> FormattedTable:
    """Hits and rates per probe point, most hits first; lost events if there were any."""
    formats: Formats = {"hits": ("hits", exact_text)}
    if counts["rate"].notna().any():
        formats = {**formats, "rate": ("rate", rate_text)}
    if counts["lost"].any():
        formats = {**formats, "lost": ("lost", exact_text)}
    return _table(counts, formats, limit, "hits")


def latency_table(latency: pd.DataFrame, limit: int) -> FormattedTable:
    """Latencies per measured function, most calls first; unfinished calls, and those only counted, if there were any.

    Functions with unfinished calls are always among the rows, and come first if not all fit.
    """
    frame = latency.sort_values("count", ascending=False, kind="stable")
    if len(frame) > limit:
        frame = frame.iloc[frame["unfinished"].eq(0).to_numpy().argsort(kind="stable")]
    formats: Formats = {
        "count": ("calls", exact_text),
        **durations("mean", "p50", "p90", "p99", "max"),
    }
    if frame["unfinished"].any():
        formats = {**formats, "unfinished": ("unfinished", exact_text)}
    if frame["only_counted"].any():
        formats = {**formats, "only_counted": ("only counted", exact_text)}
    return _table(frame, formats, limit, "count", "unfinished")


def waits_table(waits: pd.DataFrame, limit: int) -> FormattedTable:
    """Why threads waited and, if stacks were taken, where; the longest total first."""
    formats: Formats = {"waits": ("waits", exact_text), **durations("total", "mean", "max")}
    return _table(waits.set_index(["reason", "where"] if waits["where"].any() else ["reason"]), formats, limit)


def stacks_table(frame: pd.DataFrame, limit: int) -> FormattedTable:
    """Stacks of the events, the most frequent first: the user's line, the innermost frame, durations if measured."""
    innermost = pd.Series([label(_innermost(frames)) for frames in frame["frames"]], dtype=object)
    named = frame.assign(innermost=innermost).set_index(["where", "innermost"])
    formats: Formats = {"stack": ("stack", str), "hits": ("hits", exact_text)}
    if frame["total_ns"].notna().any():
        formats = {**formats, **durations("total", "mean", "p50", "p99")}
    return _table(named, formats, limit)


def durations(*names: str) -> Formats:
    """Formats of duration columns, given by their names without the unit."""
    return {f"{name}_ns": (name, duration_text) for name in names}


def _innermost(frames: tuple[Frame, ...]) -> Frame:
    """The innermost frame that is not one of the kernel's system call entry functions."""
    return next((frame for frame in reversed(frames) if frame.name not in _ENTRY), frames[-1])


def comparison_table(table: pd.DataFrame, limit: int) -> FormattedTable:
    """Both traces' hits, how the rate changed, and the same for p50 and p99 if either trace measured them.

    Significant changes come first and are named in the last column.
    """
    formats: Formats = {
        "hits": ("hits", exact_text),
        "baseline_hits": ("baseline", exact_text),
        "rate_ratio": ("rate ratio", ratio_text),
    }
    for name in ("p50", "p99"):
        if table[[f"{name}_ns", f"baseline_{name}_ns"]].notna().any(axis=None):
            formats = {
                **formats,
                f"{name}_ns": (name, duration_text),
                f"baseline_{name}_ns": ("baseline", duration_text),
                f"{name}_ratio": (f"{name} ratio", ratio_text),
            }
    return _table(_changed_first(table), {**formats, "changed": ("significant", str)}, limit)


def comparison_families_table(families: pd.DataFrame, limit: int) -> FormattedTable:
    """Hits and shares of both traces per family of functions, and how the rate changed; significant changes first."""
    formats: Formats = {
        "hits": ("hits", exact_text),
        "baseline_hits": ("baseline", exact_text),
        "share": ("share", share_text),
        "baseline_share": ("baseline", share_text),
        "rate_ratio": ("rate ratio", ratio_text),
        "changed": ("significant", str),
    }
    return _table(_changed_first(families), formats, limit)


def _changed_first(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with a significant change first, otherwise in their order; `changed` names what changed."""
    columns = map(str, frame.columns)
    named = {column: column.removesuffix("_significant") for column in columns if column.endswith("_significant")}
    flags = {name: frame[column].to_numpy() for column, name in named.items()} or {
        "rate": frame["significant"].to_numpy()
    }
    words = [", ".join(name for name, flag in flags.items() if flag[row]) or NOTHING for row in range(len(frame))]
    marked = frame.assign(changed=words)
    return marked.sort_values("significant", ascending=False, kind="stable")


def _table(frame: pd.DataFrame, formats: Formats, limit: int, *counts: str) -> FormattedTable:
    """Lay out the first `limit` rows of a frame indexed by names, such as (probe, function).

    With many rows (a glob may match hundreds), those whose `counts` are all 0 are only counted.
    """
    total = len(frame)
    if counts and total > MANY:
        frame = frame[(frame[list(counts)] > 0).any(axis=1)]
    shown = frame.head(limit)
    cells = [
        [NOTHING if value is pd.NA else text(value) for value in shown[column]] for column, (_, text) in formats.items()
    ]
    levels = [str(name) for name in shown.index.names]
    names = [[str(name) for name in shown.index.get_level_values(level)] for level in levels]
    names = [distinct(column) if level == "function" else column for level, column in zip(levels, names, strict=True)]
    return FormattedTable(
        heads=(*levels, *(head for head, _ in formats.values())),
        rows=tuple(zip(*names, *cells, strict=True)),
        names=len(levels),
        more=len(frame) - len(shown),
        silent=total - len(frame),
    )


MOST_COLUMNS: Final = 12


def frame_table(frame: pd.DataFrame, limit: int) -> FormattedTable:
    """The first rows and columns of a frame, text columns first."""
    frame = frame[_texts_first(frame)[:MOST_COLUMNS]]
    names = sum(not pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes)
    shown = frame.head(limit)
    columns = [[_cell(value) for value in shown[name]] for name in frame.columns]
    return FormattedTable(
        heads=tuple(map(str, frame.columns)),
        rows=tuple(zip(*columns, strict=True)),
        names=names,
        more=len(frame) - len(shown),
    )


def _texts_first(frame: pd.DataFrame) -> list[str]:
    numeric = {name: pd.api.types.is_numeric_dtype(kind) for name, kind in frame.dtypes.items()}
    return sorted(frame.columns, key=lambda name: numeric[name])


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        return value[:24].hex(" ") + ("…" if len(value) > 24 else "")
    if isinstance(value, float):
        return "-" if value != value else f"{value:g}"  # noqa: PLR0124 - NaN
    return str(value)


NAME_WIDTH = 44
"""The longest name in the text view, in characters."""
SHOWN_ROWS = 15
"""Visible rows of a table in HTML; the others are collapsed."""


def aligned(table: FormattedTable) -> list[str]:
    """Lines with left-aligned names and right-aligned numbers, and a line about the omitted rows."""
    shown = [[terminal.one_line(cell) for cell in row] for row in (table.heads, *table.rows)]
    cells = [
        shown[0],
        *((*(shortened(name, NAME_WIDTH) for name in row[: table.names]), *row[table.names :]) for row in shown[1:]),
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if column < table.names else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    if table.more:
        lines.append(f"and {exact_text(table.more)} more")
    if table.silent:
        lines.append(f"and {exact_text(table.silent)} without hits")
    return lines
