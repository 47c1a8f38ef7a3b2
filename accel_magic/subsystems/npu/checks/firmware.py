"""Evidence about power, losses and the firmware: waking, lost events, boots, requests, polling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.findings import Evidence, Stretch
from accel_magic.subsystems.npu.checks.common import ETIMEDOUT, hits, numbers, places, returned, times
from accel_magic.subsystems.npu.jobs import DONE, OK
from accel_magic.subsystems.npu.objects import SUBMITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from accel_magic.findings import Rule
    from accel_magic.subsystems.npu.checks.common import NpuData, Rows


RESUME = "ivpu_pm_runtime_resume_cb"
BOOT_TIMEOUT_NS: Final = 1_000_000_000
"""How long the driver waits for the firmware's first message (drivers/accel/ivpu/ivpu_hw.c, `timeout.boot`)."""


def boot_in_region(npu: NpuData, _: Rule[NpuData]) -> Iterator[Evidence]:
    """A submission waited for the driver to resume; in a trace without times: a boot before the first submission."""
    if not npu.trace.timed:
        yield from _boot_in_list(npu)
        return
    waited, resumes = _woken(npu)
    if not waited.any():
        return
    values = {
        "jobs": int(waited.sum()),
        "boots": len(resumes),
        "boot_ns": float(np.nansum(npu.trace.column("duration_ns", resumes))),
        "submission_ns": float(numbers(npu.jobs["submit_ns"])[waited].max()),
    }
    yield Evidence(values, places(npu.trace, resumes))


def wake_per_job(npu: NpuData, rule: Rule[NpuData]) -> Iterator[Evidence]:
    """Many of the submissions waited for the driver to resume."""
    waited, resumes = _woken(npu)
    woken, jobs = int(waited.sum()), len(waited)
    if len(resumes) < rule.limits["wakes"] or woken < rule.threshold * jobs:
        return
    succeeded = npu.jobs["status"].isin((OK, DONE)).to_numpy(bool)
    waking, latency = npu.trace.column("duration_ns", resumes), numbers(npu.jobs["latency_ns"])[waited & succeeded]
    values = {
        "woken": woken,
        "jobs": jobs,
        "woken_share": woken / jobs,
        "wakes": len(resumes),
        "waking_ns": float(np.median(waking)),
        "latency_ns": float(np.nanmedian(latency)) if np.isfinite(latency).any() else np.nan,
    }
    yield Evidence(values, places(npu.trace, resumes))


def _woken(npu: NpuData) -> tuple[NDArray[np.bool_], Rows]:
    """(jobs,) bool: submissions that waited for the driver to resume; and the rows of these resumes."""
    trace = npu.trace
    submitted, lasted = numbers(npu.jobs["submitted_ns"]), numbers(npu.jobs["submit_ns"])
    resumes = trace.rows(RESUME)
    resumes = resumes[np.isfinite(trace.column("duration_ns", resumes))]
    # Resumes never overlap, so they end in the order in which they start.
    end = times(trace, resumes) + trace.column("duration_ns", resumes)
    first = np.searchsorted(end, submitted, side="left")
    waited = np.isfinite(lasted) & (np.searchsorted(end, submitted + lasted, side="right") > first)
    return waited, resumes[np.unique(first[waited])]


def _boot_in_list(npu: NpuData) -> Iterator[Evidence]:
    boots, submits = npu.trace.rows("ivpu_boot"), npu.trace.rows(*SUBMITS)
    if not len(boots) or not len(submits) or boots[0] > submits[0]:
        return
    values = {"jobs": int((submits > boots[0]).sum()), "boots": len(boots), "calls_before": int(boots[0])}
    yield Evidence(values, (Stretch(0, 0, int(boots[0]), int(boots[0])),))


_DRIVER = "ivpu_"


def nothing_traced(npu: NpuData, _: Rule[NpuData]) -> Iterator[Evidence]:
    """No function of the driver was hit."""
    driver = npu.trace.counts[npu.trace.counts.index.str.startswith(_DRIVER)]
    if driver.sum() > 0:
        return
    yield Evidence({"functions": len(driver), "hits": int(npu.trace.counts.sum())})


def events_lost(npu: NpuData, _: Rule[NpuData]) -> Iterator[Evidence]:
    """Events were dropped by a full ring buffer."""
    lost, total = npu.trace.lost, int(npu.trace.counts.sum())
    if lost:
        yield Evidence({"lost": lost, "hits": total, "lost_share": lost / max(total, 1)})


def event_limit(npu: NpuData, _: Rule[NpuData]) -> Iterator[Evidence]:
    """The event limit, set by the user or the default, was reached."""
    if not npu.recording.limit_reached:
        return
    recorded, total = len(npu.trace.events), int(npu.trace.counts.sum())
    yield Evidence({"recorded": recorded, "hits": total, "recorded_share": recorded / max(total, 1)})


def hits_missed(npu: NpuData, rule: Rule[NpuData]) -> Iterator[Evidence]:
    """The kernel could not run the probe for some hits."""
    missed, total = npu.trace.missed, int(npu.trace.counts.sum())
    share = missed / max(missed + total, 1)
    if share >= rule.threshold:
        yield Evidence({"missed": missed, "hits": total, "missed_share": share})


READY, BOOT, RECOVERY = "ivpu_wait_for_ready", "ivpu_boot", "ivpu_pm_recovery_work"
TAKEN, RECEIVE, CALLBACK = "ivpu_hw_ip_ipc_rx_addr_get", "ivpu_ipc_receive", "ivpu_job_done_callback"
REQUEST, SEND = "ivpu_ipc_send_receive_internal", "ivpu_ipc_send"
# What ivpu_ipc_receive returns when it has no message: ETIMEDOUT, EAGAIN, EINTR, ECANCELED.
_NO_MESSAGE = (ETIMEDOUT, -11, -4, -125)


def boot_failed(npu: NpuData, _: Rule[NpuData]) -> Iterator[Evidence]:
    """The driver gave up waiting for the firmware's first message."""
    trace = npu.trace
    for function in (READY, BOOT):
        calls, codes = returned(trace, trace.rows(function))
        failed = calls[codes < 0]
        if len(failed):
            waited = np.nan_to_num(trace.column("duration_ns", failed)).max()
            values = {"failed": len(failed), "boots": len(calls), "waited_ns": float(waited)}
            yield Evidence(values, places(trace, failed))
            return


def boot_slow(npu: NpuData, rule: Rule[NpuData]) -> Iterator[Evidence]:
    """The firmware's first message took a large part of the driver's timeout."""
    trace = npu.trace
    calls, codes = returned(trace, trace.rows(READY))
    good = calls[codes == 0]
    waited = np.nan_to_num(trace.column("duration_ns", good))
    slow = waited >= rule.threshold * BOOT_TIMEOUT_NS
    if not slow.any():
        return
    longest = float(waited.max())
    values = {
        "slow": int(slow.sum()),
        "boots": len(calls),
        "longest_ns": longest,
        "timeout_share": longest / BOOT_TIMEOUT_NS,
    }
    yield Evidence(values, places(trace, good[slow]))


def request_unanswered(npu: NpuData, _: Rule[NpuData]) -> Iterator[Evidence]:
    """Requests for which the driver waited until its timeout."""
    trace = npu.trace
    calls, codes = returned(trace, trace.rows(REQUEST))
    alone = calls[codes == ETIMEDOUT]
    if not len(alone):
        return
    waited = float(np.nan_to_num(trace.column("duration_ns", alone)).sum())
    values = {"unanswered": len(alone), "requests": len(calls), "waited_ns": waited}
    yield Evidence(values, places(trace, alone))


def reply_duplicated(npu: NpuData, _: Rule[NpuData]) -> Iterator[Evidence]:
    """More messages were taken from the NPU than were waited for or completed a job."""
    trace = npu.trace
    if not trace.saw(RECEIVE) or not trace.saw(CALLBACK) or trace.lost:
        return
    taken = trace.rows(TAKEN)
    received, codes = returned(trace, trace.rows(RECEIVE))
    running = hits(trace, RECEIVE) - len(received)  # each may have received a message by now
    ends = len(trace.rows(CALLBACK))
    claimed = int((~np.isin(codes, _NO_MESSAGE)).sum()) + running + ends
    requests, results = returned(trace, trace.rows(REQUEST))
    late = int((results == ETIMEDOUT).sum())  # the reply may have arrived after all
    unclaimed = len(taken) - claimed - late
    # Any function's hits may be missed; allow three times the share of those that claim a message.
    unseen = 3 * trace.missed * (len(received) + ends) / max(int(trace.counts.sum()), 1)
    if unclaimed <= unseen:
        return
    yield Evidence({"unclaimed": unclaimed, "messages": len(taken), "requests": len(requests)})


def ipc_polling(npu: NpuData, rule: Rule[NpuData]) -> Iterator[Evidence]:
    """Loops that check for a message, compared with the actual messages."""
    polls, messages = npu.polls, npu.messages
    calls, real = int(polls["calls"].sum()), len(messages)
    if calls < rule.limits["calls"] or calls < rule.threshold * real:
        return
    share = calls / max(len(npu.trace.events), 1)
    values = {"loops": len(polls), "calls": calls, "messages": real, "calls_share": share}
    names = ("start_ns", "end_ns", "first_row", "last_row")
    start, end, first, behind = (np.nan_to_num(numbers(polls[name])).astype(np.int64) for name in names)
    where = tuple(Stretch(*map(int, place)) for place in zip(start, end, first, behind - 1, strict=True))
    yield Evidence(values, where)


def ipc_storm(npu: NpuData, rule: Rule[NpuData]) -> Iterator[Evidence]:
    """Far more requests than jobs, contexts and boots explain."""
    trace = npu.trace
    requests, jobs = hits(trace, SEND), hits(trace, *SUBMITS)
    occasions = 1 + hits(trace, "ivpu_open", "ivpu_postclose", BOOT, RECOVERY, "ivpu_job_timeout_work")
    allowed = rule.threshold * jobs + rule.limits["per_context"] * occasions
    if requests < rule.limits["requests"] or requests <= allowed:
        return
    yield Evidence({"requests": requests, "jobs": jobs, "expected": allowed, "per_job_ratio": requests / max(jobs, 1)})
