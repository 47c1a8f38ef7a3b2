"""A trial of scheduling policies as text, static HTML and a figure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import terminal
from accel_magic.errors import ResultError
from accel_magic.quantities import NOTHING, duration_text, exact_text, share_text
from accel_magic.views.element import element_html
from accel_magic.views.figures.plotting import PALETTE, displayed, label, legend, new_plot
from accel_magic.views.figures.ticks import linear_ticks, log_ticks
from accel_magic.views.headline import Note
from accel_magic.views.tables import FormattedTable, aligned

if TYPE_CHECKING:
    from bokeh.models import Plot

    from accel_magic.analysis.scheduling import SchedulingTables
    from accel_magic.policies.tenants import Tenant

_WHERE: Final = {
    "model": "modelled: no GPU was used; the engine goes through its runlist as docs/policies.md says",
    "kernel": "no GPU was used: jobs ran on the lab's accelerator, whose engine is a timer, behind the kernel's own "
    "scheduler; compare policies, because times are those of an emulated machine",
}
_DECIDED: Final = {"model": "policies run in the model", "kernel": "policies run in the kernel"}
_HEADS: Final = (
    *("policy", "tenants", "jobs", "ended", "P50", "P99", "mean of P99", "median of P99", "worst"),
    *("GPU", "fairness", "time slice", "level"),
)
_NONE_ENDED: Final = "no job ended in the modelled time"
_DASHES: Final = ("solid", "dashed", "dotted", "dotdash")


def text(shown: SchedulingTables) -> str:
    """Headline, then a row per policy and name."""
    lines = [
        ", ".join(note.text for note in _headline(shown)),
        *_remarks(shown),
        "",
        *aligned(_table(shown)),
    ]
    return terminal.page(lines)


def html(shown: SchedulingTables) -> str:
    """The same as one self-contained element."""
    return element_html([("", _table(shown))], _headline(shown), notes=_remarks(shown))


def _remarks(shown: SchedulingTables) -> list[str]:
    """Where jobs ran, and why there are no latencies if no job ended."""
    ended = shown.counts["ended"].any()
    return [_WHERE[shown.trials.engine], *([] if ended else [f"{_NONE_ENDED}, so there are no latencies"])]


def _headline(shown: SchedulingTables) -> tuple[Note, ...]:
    trials = shown.trials
    counts = Counter(map(_words, trials.tenants))
    runs = len(trials.trials[0].schedules)
    return (
        *(Note(f"{count} x {words}") for words, count in counts.items()),
        Note(f"{runs} run{'s' * (runs > 1)} of {duration_text(trials.duration_us * 1e3)}"),
        *([Note(f"{duration_text(trials.switch_us * 1e3)} a switch")] if trials.switch_us else []),
        Note(_DECIDED[trials.engine]),
    )


def _words(tenant: Tenant) -> str:
    work = f"{tenant.name}: {duration_text(tenant.work_us * 1e3)}"
    if not tenant.every_us:
        return f"{work} again and again"
    return f"{work} {'on average every' if tenant.random else 'every'} {duration_text(tenant.every_us * 1e3)}"


def _table(shown: SchedulingTables) -> FormattedTable:
    tasks = shown.tasks.groupby(["policy", "name"], sort=False)
    rows = []
    for (policy, name), row in zip(shown.counts.index.tolist(), shown.counts.to_dict("records"), strict=True):
        made = tasks.get_group((policy, name))
        slices = dict.fromkeys(duration_text(value * 1e3) for value in made["timeslice_us"])
        levels = dict.fromkeys(str(value) for value in made["interleave"])
        rejected = int(row["rejected"])
        times = ("p50_us", "p99_us", "p99_mean_us", "p99_median_us", "worst_us")
        rows.append(
            (
                str(policy),
                f"{name} x {len(made)}" + (f", {rejected} not admitted" if rejected else ""),
                exact_text(int(row["jobs"])),
                exact_text(int(row["ended"])),
                *(NOTHING if np.isnan(row[time]) else duration_text(row[time] * 1e3) for time in times),
                share_text(row["gpu_share"]),
                NOTHING if np.isnan(row["fairness"]) else f"{row['fairness']:.3f}",
                " ".join(slices),
                " ".join(levels),
            )
        )
    return FormattedTable(_HEADS, tuple(rows), 2)


def latencies(shown: SchedulingTables) -> Plot:
    """Share of jobs that end within a time, by policy and name: jobs that come at times of their own.

    Raises:
        ResultError: None of them ended.

    """
    timed = {tenant.name for tenant in shown.trials.tenants if tenant.every_us} or {
        tenant.name for tenant in shown.trials.tenants
    }
    table = shown.latencies.dropna(subset=["latency_us"])
    table = table[table["name"].isin(timed)]
    if not len(table):
        raise ResultError(
            "there are no latencies to draw",
            why=f"no job of {', '.join(sorted(timed))} ended in the modelled time",
            fix="model a longer time",
            code="result.empty-figure",
        )
    drawn, names = [], list(dict.fromkeys(table["name"]))
    plot = new_plot(f"share of jobs of {', '.join(names)} that end within this time", x_axis_type="log")
    shares = np.linspace(0, 1, 201)
    for number, trial in enumerate(shown.trials.trials):
        for which, name in enumerate(names):
            times = table.loc[(table["policy"] == trial.name) & (table["name"] == name), "latency_us"]
            if not len(times):
                continue
            style = {"line_color": PALETTE[number % len(PALETTE)], "line_dash": _DASHES[which % len(_DASHES)]}
            line = plot.line(np.maximum(times.quantile(shares), 1e-3).tolist(), shares.tolist(), line_width=2, **style)
            drawn.append((f"{trial.name}: {name}" if len(names) > 1 else trial.name, [line]))
    legend(plot, drawn)
    low, high = (max(float(bound), 1e-3) for bound in (table["latency_us"].min(), table["latency_us"].max()))
    plot.y_range.start = 0
    label(plot.xaxis, log_ticks(low, high), lambda tick: duration_text(tick * 1e3))
    label(plot.yaxis, linear_ticks(1), share_text)
    return displayed(plot)
