"""An NPU trace at a glance: what the driver did, as text and as HTML."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from markupsafe import Markup

from accel_magic import terminal
from accel_magic.banners import banners_of
from accel_magic.quantities import NOTHING, bytes_text, counted_text, duration_text, exact_text, rate_text, share_text
from accel_magic.subsystems.npu.jobs import DONE, OK, UNKNOWN
from accel_magic.views.element import element_html
from accel_magic.views.findings import brief_text, findings_html, findings_text
from accel_magic.views.tables import FormattedTable, aligned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.analysis.findings import Findings
    from accel_magic.recording.recording import Recording
    from accel_magic.subsystems.npu.tables import NpuTables


def summary(npu: NpuTables) -> str:
    """Lines about jobs, buffers, mappings and messages, then families, phases and findings."""
    recording = npu.recording
    lines = [*banners_of(recording), *sentences(npu)]
    for table in _tables(npu):
        lines += ["", *aligned(table)]
    return f"{terminal.page(lines)}\n\n{findings_text(_within(npu.findings))}"


def html(npu: NpuTables) -> str:
    """The same as one self-contained element."""
    return element_html(
        _tables(npu),
        banners=banners_of(npu.recording),
        template="sentences",
        sentences=sentences(npu),
        findings=Markup(findings_html(_within(npu.findings))),
    )


def _tables(npu: NpuTables) -> list[FormattedTable]:
    """Families and phases, if there are any."""
    return [table for table in (families_table(npu.families), phases_table(npu.phase_totals)) if table.rows]


def _within(findings: Findings) -> Findings:
    """The same findings without their recording, so that the banners are not repeated."""
    return replace(findings, recording=None)


def families_table(families: pd.DataFrame) -> FormattedTable:
    """Hits, share and rate of each family with hits."""
    formats = {"hits": exact_text, "share": share_text, "rate": rate_text, "functions": exact_text}
    return _table("family", families[families["hits"] > 0], formats)


def phases_table(totals: pd.DataFrame) -> FormattedTable:
    """Stretches, calls and total time of each phase."""
    return _table("phase", totals, {"stretches": exact_text, "calls": exact_text, "duration_ns": duration_text})


def _table(head: str, frame: pd.DataFrame, formats: Mapping[str, Callable[..., str]]) -> FormattedTable:
    columns = [
        [NOTHING if pd.isna(value) else text(value) for value in frame[name].tolist()] for name, text in formats.items()
    ]
    heads = (head, *("time" if name == "duration_ns" else name for name in formats))
    return FormattedTable(heads, tuple(zip(map(str, frame.index), *columns, strict=True)), names=1)


JOBS = 10
EVENTS_AT_ONCE = 300_000
"""A number of events that is analyzed in well under a second."""


def brief(recording: Recording, analyze: Callable[[], NpuTables], diagnose: Callable[[], Findings]) -> list[str]:
    """Lines for the result of a traced cell: a summary, and what the diagnosis found.

    Args:
        recording: What was traced.
        analyze: Makes its `NpuTables`.
        diagnose: Makes its findings.

    Returns:
        The lines; empty if the trace is so large that analysis would delay the cell's end.

    """
    if not 0 < recording.event_count <= EVENTS_AT_ONCE:
        return []
    npu = analyze()
    return [*sentences(npu), brief_text(diagnose())]


def answers(recording: Recording, analyze: Callable[[], NpuTables]) -> list[FormattedTable]:
    """Jobs and phases, for the result of a traced cell; none if analysis would delay the cell's end."""
    if not 0 < recording.event_count <= EVENTS_AT_ONCE:
        return []
    npu = analyze()
    made = [jobs_table(npu.jobs)] if len(npu.jobs) else []
    return [*made, phases_table(npu.phase_totals)] if len(npu.phase_totals) else made


def jobs_table(jobs: pd.DataFrame) -> FormattedTable:
    """Jobs that failed, and then those that took longest."""
    formats: dict[str, Callable[..., str]] = {
        "graph": str,
        "process": str,
        "status": str,
        "submit_ns": duration_text,
        "latency_ns": duration_text,
        "wait_ns": duration_text,
    }
    failed = ~jobs["status"].isin((OK, DONE, UNKNOWN))
    order = jobs.assign(failed=failed).sort_values(["failed", "latency_ns"], ascending=[False, False]).head(JOBS)
    shown = order.assign(process=[f"{comm} {pid}" for comm, pid in zip(order["comm"], order["pid"], strict=True)])
    used = {name: text for name, text in formats.items() if shown[name].notna().any()}
    heads = {"submit_ns": "submission", "latency_ns": "submission to done", "wait_ns": "wait"}
    columns = [[NOTHING if pd.isna(value) else text(value) for value in shown[name]] for name, text in used.items()]
    return FormattedTable(
        ("job", *(heads.get(name, name) for name in used)),
        tuple(zip(map(str, shown.index), *columns, strict=True)),
        names=1 + len(used.keys() & {"graph", "process", "status"}),
        more=len(jobs) - len(shown),
    )


def sentences(npu: NpuTables) -> list[str]:
    """Summarize jobs, buffers, mappings and messages in a line each; omit what was not traced."""
    return [line for line in (_jobs(npu), _buffers(npu), _mappings(npu), _messages(npu)) if line]


def _jobs(npu: NpuTables) -> str:
    jobs = npu.jobs
    if not len(jobs):
        return ""
    text = counted_text(len(jobs), "job")
    parts = _ends(jobs["status"])
    latency = jobs.loc[jobs["status"].isin((OK, DONE)), "latency_ns"].dropna()  # a failure may be quick or a timeout
    if len(latency):
        p50, p99 = np.quantile(latency, (0.5, 0.99))
        parts.append(f"submission to done p50 {duration_text(p50)}, p99 {duration_text(p99)}")
    return f"{text}: {', '.join(parts)}" if parts else text


def _buffers(npu: NpuTables) -> str:
    buffers = npu.buffers
    if not len(buffers):
        return ""
    size = buffers["size_bytes"].dropna().sum()
    text = counted_text(len(buffers), "buffer") + (f" of {bytes_text(float(size))}" if size else "")
    return f"{text}: {', '.join(_ends(buffers['state']))}"


def _mappings(npu: NpuTables) -> str:
    mappings = npu.mappings
    if not len(mappings):
        return ""
    return f"{counted_text(len(mappings), 'mapping')} of {counted_text(int(mappings['pages'].sum()), 'page')}"


def _messages(npu: NpuTables) -> str:
    directions = npu.messages["direction"].value_counts()
    parts = [f"{exact_text(count)} {direction}" for direction, count in directions.items() if count]
    text = f"IPC messages: {', '.join(parts)}" if parts else ""
    polls = npu.polls
    if len(polls):
        calls = exact_text(int(polls["calls"].sum()))
        text = f"{text}; {calls} calls in poll loops".removeprefix("; ")
    return text


def _ends(states: pd.Series[str]) -> list[str]:
    """The number of each state, the most frequent first; of ends only where some were seen."""
    counts = states.value_counts()
    if set(counts[counts > 0].index) == {UNKNOWN}:
        return ["what was traced does not tell their ends (npu does)"]
    return [
        f"{exact_text(count)} {'whose end is ' if state == UNKNOWN else ''}{state}"
        for state, count in counts.items()
        if count
    ]
