"""The NPU's line of the live row: jobs, messages, buffers and pages, from the traced functions of the driver."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.demangle import plain_name
from accel_magic.quantities import bytes_text, duration_text, exact_text, rate_text
from accel_magic.views.live.device_counters import Counters, LiveNumber

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.probes.plan import Plan
    from accel_magic.recording.live_samples import LiveSample

MESSAGES = ("ivpu_hw_ip_ipc_tx_set", "ivpu_hw_ip_ipc_rx_addr_get")
SUBMITTED = ("ivpu_submit_ioctl", "ivpu_cmdq_submit_ioctl")
ENDED = ("ivpu_job_signal_and_destroy", "ivpu_job_signal")
"""Called once per job, whether it was done or given up; each kernel has one of the two."""
ALLOCATED = ("ivpu_bo_create_ioctl", "ivpu_bo_create_from_userptr_ioctl")
MAPPED = ("ivpu_mmu_context_map_page",)
_COUNTED: tuple[tuple[str, ...], ...] = (MESSAGES, SUBMITTED, ENDED, ALLOCATED, MAPPED)


class NpuHistory:
    """The driver's counters over the last half second; make one with `of`."""

    label = "NPU"

    def __init__(self, counters: Counters, totals: NDArray[np.intp]) -> None:
        self._counters = counters
        self._totals = totals

    @classmethod
    def of(cls, plan: Plan) -> NpuHistory | None:
        """Make the history for a plan that traces jobs, messages, buffers or pages of the NPU; None for other plans."""
        ids: dict[str, int] = {
            plain_name(point.function): point.id for point in plan.points if point.target == "intel_vpu"
        }
        counters = Counters(ids, _COUNTED)
        totals = [point.id for point in plan.points if point.total and plain_name(point.function) in ALLOCATED]
        return cls(counters, np.array(totals, np.intp)) if len(counters) else None

    def add(self, sample: LiveSample) -> None:
        """Add a sample."""
        self._counters.add(sample)

    def items(self, sample: LiveSample) -> tuple[LiveNumber, ...]:
        """The numbers to show after the newest sample; those whose functions are not traced are omitted."""
        counters, items = self._counters, []
        if MESSAGES in counters:
            items.append(
                LiveNumber(
                    "IPC", rate_text(counters.rate(MESSAGES)), "messages to and from the firmware, without polls"
                )
            )
        if ENDED in counters:
            items.append(LiveNumber("jobs", rate_text(counters.rate(ENDED)), "jobs that ended"))
        if ENDED in counters and SUBMITTED in counters:
            flying = max(counters.total(SUBMITTED) - counters.total(ENDED), 0)
            items.append(
                LiveNumber("in flight", exact_text(flying), "jobs submitted in this trace that have not ended")
            )
        if ALLOCATED in counters:
            buffers = self._buffers(sample, counters.total(ALLOCATED))
            items.append(LiveNumber("buffers", buffers, "buffers created in this trace"))
            items += _allocation_latency(sample)
        if MAPPED in counters:
            items.append(
                LiveNumber(
                    "pages mapped", rate_text(counters.rate(MAPPED)), "4 KiB pages mapped in the NPU's page tables"
                )
            )
        return tuple(items)

    def _buffers(self, sample: LiveSample, count: int) -> str:
        size = int(sample.totals[self._totals].sum()) if len(self._totals) else 0
        return f"{exact_text(count)}, {bytes_text(size)}" if size else exact_text(count)


def _allocation_latency(sample: LiveSample) -> list[LiveNumber]:
    measured = next((latency for latency in sample.latency if latency.label == ALLOCATED[0]), None)
    if measured is None or math.isnan(measured.p50_ns):
        return []
    text = f"{duration_text(measured.p50_ns)} / {duration_text(measured.p99_ns)}"
    return [LiveNumber("allocation p50 / p99", text, "time in the ioctl that creates a buffer")]
