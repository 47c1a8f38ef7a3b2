"""The NPU in a few sentences: what jobs, buffers, mappings and messages there were, and whether something is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel_magic.views.format import bytes_text, duration_text, exact_text

if TYPE_CHECKING:
    from accel_magic.analysis.npu import Npu
    from accel_magic.traces.result import TraceResult

DRIVER = "intel_vpu"
EVENTS_AT_ONCE = 300_000
"""Events that are analysed in well under a second."""
MOST_TITLES = 3


def brief(result: TraceResult) -> list[str]:
    """Lines for the result of a traced cell: the sentences, and whether diagnosis found anything.

    None where the trace is not about an NPU, or so large that this would hold up the end of the cell.
    """
    traced = any(point.target == DRIVER for point in result.plan.points)
    if not traced or not result.recorded or result.recorded > EVENTS_AT_ONCE:
        return []
    from accel_magic.views.findings import headline_text  # it draws with the views that this is part of

    npu = result.npu
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
    text = f"{exact_text(len(jobs))} jobs"
    others = jobs["status"].value_counts()
    parts = [f"{exact_text(count)} {status}" for status, count in others.items() if count]
    latency = jobs["latency_ns"].dropna()
    if len(latency):
        p50, p99 = np.quantile(latency, (0.5, 0.99))
        parts.append(f"submission to done p50 {duration_text(p50)}, p99 {duration_text(p99)}")
    return f"{text}: {', '.join(parts)}" if parts else text


def _buffers(npu: Npu) -> str:
    buffers = npu.buffers
    if not len(buffers):
        return ""
    states = buffers["state"].value_counts()
    parts = ", ".join(f"{exact_text(count)} {state}" for state, count in states.items() if count)
    size = buffers["size"].dropna().sum()
    return f"{exact_text(len(buffers))} buffers{f' of {bytes_text(float(size))}' if size else ''}: {parts}"


def _mappings(npu: Npu) -> str:
    mappings = npu.mappings
    if not len(mappings):
        return ""
    return f"{exact_text(len(mappings))} mappings of {exact_text(int(mappings['pages'].sum()))} pages"


def _messages(npu: Npu) -> str:
    directions = npu.messages["direction"].value_counts()
    parts = [f"{exact_text(count)} {direction}" for direction, count in directions.items() if count]
    text = f"IPC messages: {', '.join(parts)}" if parts else ""
    polls = npu.polls
    if len(polls):
        calls = exact_text(int(polls["calls"].sum()))
        text = f"{text}; {calls} calls in poll loops".removeprefix("; ")
    return text
