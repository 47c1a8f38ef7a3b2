"""A trial of policies as text, static HTML and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from accel_magic import terminal
from accel_magic.analysis.policies import OPTIMUM
from accel_magic.policies.page_trace import BLOCK_BYTES
from accel_magic.policies.trial import DEFAULT
from accel_magic.quantities import NOTHING, bytes_text, counted_text, duration_text, exact_text, ratio_text, share_text
from accel_magic.views.element import element_html
from accel_magic.views.figures.plotting import PALETTE, displayed, label, legend, new_plot
from accel_magic.views.figures.ticks import linear_ticks
from accel_magic.views.headline import Note
from accel_magic.views.tables import FormattedTable, aligned

if TYPE_CHECKING:
    from collections.abc import Callable

    from bokeh.models import Plot

    from accel_magic.analysis.policies import PolicyTables

ENGINES: Final = {
    "model": "engine: model of the memory",
    "kernel": "engine: kernel, on the lab's accelerator",
}
"""How engines are called where results are shown."""
MODELLED: Final = "modelled: no GPU was used; misses and evictions are those of the model's rules"
_HEADS: Final = (
    *("policy", "hit ratio", "faults", "misses", "x optimum", "evicted", "moved in", "moved out", "ignored"),
    "modelled time",
)


def text(shown: PolicyTables) -> str:
    """Headline, then a row per policy."""
    return terminal.page([described(shown), *_remarks(shown), "", *aligned(_table(shown))])


def described(shown: PolicyTables) -> str:
    """A trial in one line: its trace, memory, mode and engine."""
    return ", ".join(note.text for note in _headline(shown))


def _remarks(shown: PolicyTables) -> list[str]:
    """What was modelled, by what, and how many remarks on the policies' code there are."""
    lints = sum(len(trial.lints) for trial in shown.trials.trials)
    return [
        MODELLED,
        f"time: {shown.link}",
        *([f"policies' code: {lints} remark{'s' * (lints > 1)}, see diagnose()"] if lints else []),
    ]


def html(shown: PolicyTables) -> str:
    """The same as one self-contained element."""
    return element_html([("", _table(shown))], _headline(shown), notes=_remarks(shown))


def _headline(shown: PolicyTables) -> tuple[Note, ...]:
    trials = shown.trials
    last_received = "policies hear of every access" if trials.observed else "policies hear of faults only"
    hint = "GPUs with access counters report accesses to pages in memory; others report faults only"
    touched = len(trials.trace.blocks) * BLOCK_BYTES
    return (
        Note(trials.trace.source),
        Note(f"{counted_text(len(trials.trace), 'access', 'accesses')} to {bytes_text(touched)}"),
        Note(f"memory {bytes_text(trials.chunks * BLOCK_BYTES)}"),
        Note(last_received, hint=hint),
        Note(ENGINES[trials.engine]),
    )


def _table(shown: PolicyTables) -> FormattedTable:
    rows: list[tuple[str, ...]] = [
        (
            str(name),
            share_text(row["hit_ratio"]),
            exact_text(int(row["faults"])),
            exact_text(int(row["misses"])),
            f"{row['over_optimum']:.2f}",
            exact_text(int(row["evictions"])),
            bytes_text(row["in_bytes"]),
            bytes_text(row["out_bytes"]),
            exact_text(int(row["refused"])),
            duration_text(row["modelled_s"] * 1e9),
        )
        for name, row in shown.counts.iterrows()
    ]
    rows.append((OPTIMUM, NOTHING, NOTHING, exact_text(shown.optimum), "1.00", *[NOTHING] * 5))
    return FormattedTable(_HEADS, tuple(rows), 1)


def comparison_text(table: pd.DataFrame, trials: tuple[PolicyTables, PolicyTables]) -> str:
    """A comparison as text: both trials, and each policy.

    Args:
        table: As `accel_magic.analysis.policies.compare`.
        trials: Both trials, this one first.

    """
    return terminal.page([*_compared(trials), "", *aligned(_changes(table))])


def comparison_html(table: pd.DataFrame, trials: tuple[PolicyTables, PolicyTables]) -> str:
    """A comparison as one self-contained HTML element."""
    return element_html([("", _changes(table))], notes=_compared(trials))


def _compared(trials: tuple[PolicyTables, PolicyTables]) -> list[str]:
    ours, theirs = map(described, trials)
    return [ours, f"compared with {theirs}", "ratios are this trial divided by the baseline"]


def _changes(table: pd.DataFrame) -> FormattedTable:
    """The columns that tell most."""
    shown: dict[str, Callable[[Any], str]] = {
        "misses": exact_text,
        "faults": exact_text,
        "modelled_s": lambda seconds: duration_text(seconds * 1e9),
    }
    heads = [head for name in ("misses", "faults", "modelled time") for head in (name, "baseline", "ratio")]
    rows = [
        (
            str(policy),
            *(
                text
                for name, formatted in shown.items()
                for text in (
                    *(NOTHING if pd.isna(row[at]) else formatted(row[at]) for at in (name, f"baseline_{name}")),
                    ratio_text(row[f"{name}_ratio"]),
                )
            ),
        )
        for policy, row in table.iterrows()
    ]
    return FormattedTable(("policy", *heads), tuple(rows), 1)


def over_time(shown: PolicyTables) -> Plot:
    """Misses of each policy, and of the optimum, over the accesses."""
    table = shown.over_time
    plot = new_plot("share of accesses that miss", x_axis_label="access")
    length = len(shown.trials.trace)
    drawn = []
    for number, (name, rows) in enumerate(table.groupby("policy", sort=False)):
        ends = [*rows["access"].iloc[1:].tolist(), length]
        width = [end - start for start, end in zip(rows["access"], ends, strict=True)]
        share = (rows["misses"].astype("float64") / width).tolist()
        line = plot.step(rows["access"].tolist(), share, mode="after", **_style(str(name), number))
        drawn.append((str(name), [line]))
    legend(plot, drawn)
    highest = max(float((table["misses"].astype("float64")).max()) / max(length // max(len(rows), 1), 1), 0.01)
    plot.y_range.start = plot.x_range.start = 0
    label(plot.yaxis, linear_ticks(min(highest, 1)), share_text)
    label(plot.xaxis, linear_ticks(length), lambda tick: exact_text(int(tick)))
    return displayed(plot)


def curve(shown: PolicyTables) -> Plot:
    """Misses by the size of memory: of LRU, of the optimum, and of each policy at the size that was tried."""
    table, length = shown.curve, len(shown.trials.trace)
    plot = new_plot("share of accesses that miss, by memory", x_axis_label="memory")
    sizes = (table.index.to_numpy() * BLOCK_BYTES).tolist()
    optimum = table["opt"].dropna()
    drawn = [
        ("default", [plot.line(sizes, (table["lru"] / length).tolist(), **_style(DEFAULT, 0))]),
        (
            OPTIMUM,
            [
                plot.line(
                    (optimum.index.to_numpy() * BLOCK_BYTES).tolist(),
                    (optimum.astype("float64") / length).tolist(),
                    **_style(OPTIMUM, 0),
                )
            ],
        ),
    ]
    for number, trial in enumerate(shown.trials.trials[1:], 1):
        point = plot.scatter(
            [shown.trials.chunks * BLOCK_BYTES], [trial.counts.misses / length], size=9, color=PALETTE[number % 8]
        )
        drawn.append((trial.name, [point]))
    legend(plot, drawn)
    plot.y_range.start = plot.x_range.start = 0
    label(plot.yaxis, linear_ticks(float(table["lru"].max()) / length), share_text)
    unit = 1 << 30 if sizes[-1] >= 2 << 30 else 1 << 20
    label(plot.xaxis, [tick * unit for tick in linear_ticks(sizes[-1] / unit)], bytes_text)
    return displayed(plot)


def _style(name: str, number: int) -> dict[str, object]:
    if name == OPTIMUM:
        return {"line_color": "#888888", "line_dash": "dashed", "line_width": 1.5}
    return {"line_color": PALETTE[number % len(PALETTE)], "line_width": 2 if name == DEFAULT else 1.5}
