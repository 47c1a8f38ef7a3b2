"""The NPU's line of the live row: jobs, messages, buffers and pages, from the traced functions of the driver."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.analysis.npu.trace import plain_name
from accel_magic.views.format import bytes_text, duration_text, exact_text, rate_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.probes.plan import Plan
    from accel_magic.recording.live import LiveSample

_WINDOW_NS = 500_000_000
_HISTORY = 64

MESSAGES = ("ivpu_hw_ip_ipc_tx_set", "ivpu_hw_ip_ipc_rx_addr_get")
SUBMITTED = ("ivpu_submit_ioctl", "ivpu_cmdq_submit_ioctl")
ENDED = ("ivpu_job_signal_and_destroy", "ivpu_job_signal")
"""Called once per job, whether it was done or given up; each kernel has one of the two."""
ALLOCATED = ("ivpu_bo_create_ioctl", "ivpu_bo_create_from_userptr_ioctl")
MAPPED = ("ivpu_mmu_context_map_page",)
_COUNTED: tuple[tuple[str, ...], ...] = (MESSAGES, SUBMITTED, ENDED, ALLOCATED, MAPPED)


@dataclass(frozen=True)
class Item:
    """One number of the line: its label, its text, and a hint that says exactly what it counts."""

    label: str
    text: str
    hint: str


class NpuHistory:
    """The driver's counters over the last half second; make one with `of`."""

    def __init__(self, points: dict[tuple[str, ...], NDArray[np.intp]], totals: NDArray[np.intp]) -> None:
        self._points = points
        self._totals = totals
        self._samples: deque[tuple[int, dict[tuple[str, ...], int]]] = deque(
            [(0, dict.fromkeys(points, 0))], maxlen=_HISTORY
        )

    @classmethod
    def of(cls, plan: Plan) -> NpuHistory | None:
        """Make the history for a plan that traces jobs, messages, buffers or pages of the NPU; None for other plans."""
        ids: dict[str, int] = {
            plain_name(point.function): point.id for point in plan.points if point.target == "intel_vpu"
        }
        points = {
            functions: np.array([ids[name] for name in functions if name in ids], np.intp) for functions in _COUNTED
        }
        found = {functions: rows for functions, rows in points.items() if len(rows)}
        totals = [point.id for point in plan.points if point.total and plain_name(point.function) in ALLOCATED]
        return cls(found, np.array(totals, np.intp)) if found else None

    def add(self, sample: LiveSample) -> None:
        """Add a sample."""
        counts = {functions: int(sample.hits[rows].sum()) for functions, rows in self._points.items()}
        self._samples.append((sample.time_ns, counts))

    def items(self, sample: LiveSample) -> tuple[Item, ...]:
        """The numbers to show after the newest sample; those whose functions are not traced are omitted."""
        now = self._samples[-1][1]
        items = []
        if MESSAGES in self._points:
            items.append(
                Item("IPC", rate_text(self._rate(MESSAGES)), "messages to and from the firmware, without polls")
            )
        if ENDED in self._points:
            items.append(Item("jobs", rate_text(self._rate(ENDED)), "jobs that ended"))
        if ENDED in self._points and SUBMITTED in self._points:
            flying = max(now[SUBMITTED] - now[ENDED], 0)
            items.append(Item("in flight", exact_text(flying), "jobs submitted in this trace that have not ended"))
        if ALLOCATED in self._points:
            items.append(Item("buffers", self._buffers(sample, now[ALLOCATED]), "buffers created in this trace"))
            items += _allocation_latency(sample)
        if MAPPED in self._points:
            items.append(
                Item("pages mapped", rate_text(self._rate(MAPPED)), "4 KiB pages mapped in the NPU's page tables")
            )
        return tuple(items)

    def _buffers(self, sample: LiveSample, count: int) -> str:
        size = int(sample.totals[self._totals].sum()) if len(self._totals) else 0
        return f"{exact_text(count)}, {bytes_text(size)}" if size else exact_text(count)

    def _rate(self, functions: tuple[str, ...]) -> float:
        """Hits/s over the last half second, or since the start if that is shorter."""
        now, counts = self._samples[-1]
        older = [sample for sample in self._samples if sample[0] < now]
        if not older:
            return 0.0
        then, before = next((sample for sample in reversed(older) if now - sample[0] >= _WINDOW_NS), older[0])
        return (counts[functions] - before[functions]) / (now - then) * 1e9


def _allocation_latency(sample: LiveSample) -> list[Item]:
    measured = next((latency for latency in sample.latency if latency.label == ALLOCATED[0]), None)
    if measured is None or math.isnan(measured.p50_ns):
        return []
    text = f"{duration_text(measured.p50_ns)} / {duration_text(measured.p99_ns)}"
    return [Item("allocation p50 / p99", text, "time in the ioctl that creates a buffer")]
