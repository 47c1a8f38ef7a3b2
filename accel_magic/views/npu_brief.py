"""The NPU in a few sentences: what jobs, buffers, mappings and messages there were, and whether something is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel_magic.analysis.npu.jobs import UNKNOWN
from accel_magic.views.format import bytes_text, duration_text, exact_text

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from accel_magic.analysis.npu import Npu
    from accel_magic.traces.recording import Recording

DRIVER = "intel_vpu"
EVENTS_AT_ONCE = 300_000
"""Events that are analysed in well under a second."""
MOST_TITLES = 3


def brief(recording: Recording, take_apart: Callable[[], Npu]) -> list[str]:
    """Lines for the result of a traced cell: the sentences, and whether diagnosis found anything.

    Args:
        recording: What was traced.
        take_apart: Makes an `Npu` of it.

    None where the trace is not about an NPU, or so large that this would hold up the end of the cell.
    """
    traced = any(point.target == DRIVER for point in recording.plan.points)
    if not traced or not 0 < recording.event_count <= EVENTS_AT_ONCE:
        return []
    from accel_magic.views.findings import headline_text  # it draws with the views that this is part of

    npu = take_apart()
    found = f"diagnose(): {headline_text(npu.findings)}"
    titles = [f"{finding.severity}: {finding.title}" for finding in npu.findings]
    return [*sentences(npu), "; ".join([found, *titles[:MOST_TITLES]])]


def sentences(npu: Npu) -> list[str]:
    """Say in a line each what became of jobs, buffers, mappings and messages; what was not traced says nothing."""
    return [line for line in (_jobs(npu), _buffers(npu), _mappings(npu), _messages(npu)) if line]


def _jobs(npu: Npu) -> str:
    jobs = npu.jobs
    if not len(jobs):
        return ""
    text = _counted(len(jobs), "job")
    parts = _ends(jobs["status"])
    latency = jobs["latency_ns"].dropna()
    if len(latency):
        p50, p99 = np.quantile(latency, (0.5, 0.99))
        parts.append(f"submission to done p50 {duration_text(p50)}, p99 {duration_text(p99)}")
    return f"{text}: {', '.join(parts)}" if parts else text


def _buffers(npu: Npu) -> str:
    buffers = npu.buffers
    if not len(buffers):
        return ""
    size = buffers["size_bytes"].dropna().sum()
    text = _counted(len(buffers), "buffer") + (f" of {bytes_text(float(size))}" if size else "")
    return f"{text}: {', '.join(_ends(buffers['state']))}"


def _mappings(npu: Npu) -> str:
    mappings = npu.mappings
    if not len(mappings):
        return ""
    return f"{_counted(len(mappings), 'mapping')} of {_counted(int(mappings['pages'].sum()), 'page')}"


def _messages(npu: Npu) -> str:
    directions = npu.messages["direction"].value_counts()
    parts = [f"{exact_text(count)} {direction}" for direction, count in directions.items() if count]
    text = f"IPC messages: {', '.join(parts)}" if parts else ""
    polls = npu.polls
    if len(polls):
        calls = exact_text(int(polls["calls"].sum()))
        text = f"{text}; {calls} calls in poll loops".removeprefix("; ")
    return text


def _ends(states: pd.Series[str]) -> list[str]:
    """How many ended how, the most first."""
    counts = states.value_counts()
    return [
        f"{exact_text(count)} {'whose end is ' if state == UNKNOWN else ''}{state}"
        for state, count in counts.items()
        if count
    ]


def _counted(count: int, noun: str) -> str:
    return f"{exact_text(count)} {noun}{'' if count == 1 else 's'}"
