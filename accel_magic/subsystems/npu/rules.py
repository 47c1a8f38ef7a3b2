"""The diagnosis rules as data: what to look for, the limit and its source, and the texts of the finding.

Limits are ratios within one trace, or fractions of the driver's own timeouts, so they apply to a real NPU, to emulation
and to a busy machine alike. `accel_magic.subsystems.npu.checks` has a check per rule.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.analysis.driver_trace import DriverNeeds
from accel_magic.findings import Rule
from accel_magic.subsystems.npu.checks import buffers, firmware, jobs
from accel_magic.subsystems.npu.objects import SUBMITS

if TYPE_CHECKING:
    from accel_magic.subsystems.npu.checks.common import NpuData


EMULATION_STALL_NS: Final = 60_000_000
"""How long the host may delay an emulated NPU, which is an ordinary process. Measured with three per processor."""


def _timed(functions: tuple[str, ...]) -> DriverNeeds:
    """One of these functions, with times and events."""
    return DriverNeeds(functions, times=True, events=True)


_NOISE = (
    "An outlier must also last twice as long as the longest call that does not wait for anything, because a busy "
    "machine can delay any call"
)


RULES: Final[tuple[Rule[NpuData], ...]] = (
    Rule(
        "npu.nothing-traced",
        "warning",
        "no call to the NPU driver was recorded",
        "This trace says nothing about the NPU: either nothing was probed, or the probed functions were never called.",
        "Trace with `%%ktrace npu`. Check with `%accel_doctor` that the driver is loaded, and that the cell uses the "
        "NPU and not the CPU.",
        check=firmware.nothing_traced,
    ),
    Rule(
        "npu.events-lost",
        "warning",
        "{lost:,.0f} of {hits:hit|hits} were counted but not recorded",
        "Counts are still exact. Jobs, buffers and phases are reconstructed from events, so some of them are missing, "
        "and some that appear unfinished may have ended.",
        "Raise `--buffer`, trace only a part (`npu:jobs`), or trace for a shorter time.",
        check=firmware.events_lost,
    ),
    Rule(
        "npu.event-limit",
        "warning",
        "recording ended early: the event limit was reached",
        "Later hits were counted but not recorded: jobs, buffers and phases end where the events do.",
        "Raise `--max-events`, or trace only a part (`npu:jobs`).",
        check=firmware.event_limit,
    ),
    Rule(
        "npu.hits-missed",
        "warning",
        "{missed:hit|hits} missed",
        "The kernel could not run the probe for these hits. Counts are too low by this number, and event pairs may be "
        "incomplete.",
        "Trace fewer functions: a part (`npu:jobs`) instead of all.",
        threshold=0.05,
        unit="of all hits",
        source="below this, counts and joins in the lab's runs stayed correct",
        check=firmware.hits_missed,
    ),
    Rule(
        "npu.boot-failed",
        "problem",
        "the firmware did not boot: {failed:,.0f} of {boots:attempt|attempts}",
        "The firmware's first message did not arrive within the driver's timeout. The driver resets the NPU and tries "
        "once more from the start. If that fails too, the device is unusable, or missing if the driver was loading.",
        "Look in `dmesg` for the driver's own report, and check the firmware file's version. Reload the driver.",
        check=firmware.boot_failed,
        needs=_timed(("ivpu_wait_for_ready", "ivpu_boot")),
    ),
    Rule(
        "npu.boot-slow",
        "warning",
        "{slow:,.0f} of {boots:firmware boot|firmware boots} took long",
        "The driver polls until the firmware answers. The first user of the NPU after it slept waits for all of it.",
        "Keep the NPU awake if its first answer matters (`power/control` of the PCI device), and compare with another "
        "firmware version.",
        threshold=0.2,
        unit="of the driver's boot timeout (1 s)",
        source="at 100 % the driver gives up (drivers/accel/ivpu/ivpu_hw.c); a boot takes a few percent, also under "
        "emulation",
        check=firmware.boot_slow,
        needs=_timed(("ivpu_wait_for_ready",)),
    ),
    Rule(
        "npu.request-unanswered",
        "problem",
        "{unanswered:,.0f} of {requests:request|requests} to the firmware went unanswered",
        "The driver sent a request and gave up waiting for the reply, so the reply was lost or never sent. What was "
        "requested (a queue, a doorbell, a power state) is not set up, and later operations may fail.",
        "Look at `dmesg`. If it happens again, reload the driver, or use another firmware version.",
        check=firmware.request_unanswered,
        needs=_timed(("ivpu_ipc_send_receive_internal",)),
    ),
    Rule(
        "npu.reply-duplicated",
        "warning",
        "{unclaimed:firmware message|firmware messages} arrived that nothing waited for",
        "The firmware sent more messages than requests and completed jobs explain: replies arrived twice, or after the "
        "driver had given up. The driver discards them, so results are correct; each costs an interrupt.",
        "Compare with another firmware version.",
        source="every message is the reply to a request, the completion of a job, or part of a boot",
        check=firmware.reply_duplicated,
        needs=_timed(("ivpu_hw_ip_ipc_rx_addr_get",)),
    ),
    Rule(
        "npu.job-hung",
        "problem",
        "{hung:,.0f} of {jobs:job|jobs} hung",
        "The NPU was still working on the job when the driver's job timeout expired, without making progress. The "
        "driver resets the engine or the whole NPU; jobs queued behind it are lost or restarted.",
        "Find the job by its process and time. Look at `dmesg` and the driver's core dump, and try the same model with "
        "another compiler or firmware version.",
        source="the driver's own timeout (`tdr_timeout_ms`, {timeout})",
        check=jobs.job_hung,
        needs=_timed(("ivpu_job_timeout_work", "ivpu_bo_wait_ioctl")),
    ),
    Rule(
        "npu.completion-lost",
        "problem",
        "the completion of {lost:,.0f} of {jobs:job|jobs} was never reported",
        "The job was in flight for longer than the driver waits, while the NPU reported idle or completed other jobs: "
        "the job was done, and its message or interrupt was lost.",
        "Look at `dmesg`. Compare the NPU's interrupts in /proc/interrupts with the jobs, and try another firmware "
        "version.",
        source="the driver's own timeout (`tdr_timeout_ms`, {timeout}), or the program's",
        check=jobs.completion_lost,
        needs=_timed(("ivpu_job_timeout_work", "ivpu_bo_wait_ioctl")),
    ),
    Rule(
        "npu.job-timeout",
        "problem",
        "{stuck:,.0f} of {jobs:job|jobs} did not complete in time",
        "The driver or the program stopped waiting. This trace does not show whether the job hung, its completion was "
        "lost, or it just takes that long.",
        "Trace all of `npu`, for longer than the driver's timeout ({timeout}): the driver's checks then show the "
        "cause.",
        source="the driver's own timeout (`tdr_timeout_ms`, {timeout}), or the program's",
        check=jobs.job_timeout,
        needs=_timed(("ivpu_job_timeout_work", "ivpu_bo_wait_ioctl")),
    ),
    Rule(
        "npu.npu-reset",
        "problem",
        "the NPU was reset {resets:time|times}",
        "The driver gave up on the NPU's state and restarted it. Jobs in flight were aborted; newer drivers reject "
        "(`EBADFD`) further jobs from the process whose job caused it.",
        "Find the cause: the other findings, `dmesg`, the driver's core dump.",
        check=jobs.npu_reset,
        needs=_timed(("ivpu_pm_recovery_work", "ivpu_pm_trigger_recovery", "ivpu_jsm_reset_engine")),
    ),
    Rule(
        "npu.jobs-failed",
        "problem",
        "{failed:job|jobs} failed",
        "The NPU ended them with an error, or the driver rejected them (`refused`). They have no results.",
        "The evidence names the driver's errors (EBADFD: an earlier job of this process hung; EBUSY: too many jobs in "
        "flight; ENOENT: a buffer or queue does not exist); `code` in `result.npu.jobs` has those of the NPU.",
        check=jobs.jobs_failed,
        needs=_timed(SUBMITS),
    ),
    Rule(
        "npu.calls-failed",
        "problem",
        "{failed:,.0f} of {calls:creation|creations} of buffers and queues failed",
        "The driver rejected what a program asked for. The buffer or queue does not exist, and what uses it fails too.",
        "The evidence names the errors and the functions. EINVAL: the arguments are wrong, or too new for this kernel; "
        "ENOENT: there is no such handle or queue; ENOMEM, ENOSPC: memory or address space is used up.",
        explained_by=("boot-failed", "request-unanswered", "npu-reset"),
        check=jobs.calls_failed,
        needs=_timed(("ivpu_bo_create_ioctl", "ivpu_cmdq_create_ioctl")),
    ),
    Rule(
        "npu.completion-duplicated",
        "warning",
        "the completion of {duplicated:,.0f} of {jobs:job|jobs} was reported more than once",
        "The driver ignores the second message, or treats it as an error of an unknown job. If the job number has been "
        "reused by then, the wrong job ends.",
        "Compare with another firmware version.",
        check=jobs.completion_duplicated,
        needs=_timed(("ivpu_job_done_callback",)),
    ),
    Rule(
        "npu.jobs-slow",
        "warning",
        "{slow:,.0f} of {jobs:job|jobs} took far longer on the NPU than the others",
        "The NPU had the job and sent no message all that time, so neither the program, the driver nor the queue is "
        "the cause. All jobs behind it waited too.",
        "Check whether the slow jobs have something in common (`result.npu.jobs`: process, size, time), whether the "
        "NPU was clocked down, and whether another process was using it.",
        threshold=20,
        unit="times a typical job's time on the NPU (mean of the shorter three quarters)",
        source=f"clean runs of the lab stay below it unless the whole machine is delayed. {_NOISE}",
        limits=MappingProxyType({"jobs": 5, "stalls": 2, "emulation_ns": EMULATION_STALL_NS}),
        check=jobs.jobs_slow,
        needs=_timed(SUBMITS),
    ),
    Rule(
        "npu.boot-in-region",
        "note",
        "{jobs:job|jobs} waited for the NPU to wake",
        "The NPU was asleep, and its first use had to wait until the firmware had booted. A measurement over this "
        "interval includes the boot.",
        "Use the NPU once before the measured cell, or exclude the first job.",
        source="the part of the trace in which a submission waited for the driver to resume",
        explained_by=("boot-failed", "boot-slow", "wake-per-job"),
        check=firmware.boot_in_region,
        needs=DriverNeeds(("ivpu_pm_runtime_resume_cb", "ivpu_boot"), events=True),
    ),
    Rule(
        "npu.wake-per-job",
        "note",
        "{woken:,.0f} of {jobs:job|jobs} had to wait for the NPU to wake",
        "The driver suspends the NPU after it has been idle for about 10 ms or more. Jobs are further apart than that, "
        "so each pays for a firmware boot.",
        "Keep the NPU awake (`echo on > /sys/bus/pci/devices/.../power/control`), raise `autosuspend_delay_ms` in the "
        "same folder, or submit jobs in batches.",
        threshold=0.2,
        unit="of the jobs",
        source="from one job in five, waking is part of the typical job",
        limits=MappingProxyType({"wakes": 3}),
        explained_by=("boot-failed", "boot-slow"),
        check=firmware.wake_per_job,
        needs=_timed(("ivpu_pm_runtime_resume_cb",)),
    ),
    Rule(
        "npu.jobs-serialised",
        "note",
        "{pairs:time|times} a job was ready but waited for the previous one",
        "A thread submits, waits, and submits again with nothing to prepare in between. The NPU idles from the end of "
        "one job until the thread has woken and the next job has arrived.",
        "Keep two or more jobs in flight: use asynchronous inference requests or several command lists or fences, and "
        "wait for the oldest.",
        threshold=0.2,
        unit="of the time from the first such job to the last, during which the NPU idled",
        source="less than a fifth is not worth changing the program",
        limits=MappingProxyType({"pairs": 10, "pairs_share": 0.5}),
        check=jobs.jobs_serialised,
        needs=_timed(SUBMITS),
    ),
    Rule(
        "npu.pages-remapped",
        "warning",
        "{buffers:buffer was|buffers were} mapped again",
        "More pages were written into the NPU's page tables than the buffers have: the same buffers were mapped, "
        "unmapped and mapped again.",
        "Keep buffers bound between jobs: keep the objects that own them, and keep the device open.",
        threshold=1,
        unit="times the buffers' own pages",
        source="each page needs one entry during the buffer's lifetime",
        check=buffers.pages_remapped,
        needs=_timed(("ivpu_mmu_context_map_page",)),
    ),
    Rule(
        "npu.buffers-churned",
        "note",
        "{single_use:buffer|buffers} served a single job each, and cost more than the job",
        "Buffers are created, mapped, used once and freed. That takes longer than the jobs themselves.",
        "Create buffers once and reuse them: allocate tensors before the loop, or use a pool.",
        threshold=1,
        unit="times a job's median time on the NPU, for creating, mapping and freeing its buffers",
        source="above this, the buffers cost more than the job",
        limits=MappingProxyType({"jobs": 20}),
        check=buffers.buffers_churned,
        needs=_timed(("ivpu_bo_create_ioctl",)),
    ),
    Rule(
        "npu.buffers-leaked",
        "warning",
        "{leaked:,.0f} of {created:buffer|buffers} not freed",
        "They outlived the closing of the device, or every job leaves another one behind: memory that the NPU's jobs "
        "no longer use and that nothing else can use.",
        "Free them, or release what owns them: requests, tensors, command lists.",
        threshold=0.5,
        unit="buffers left per job",
        source="buffers kept on purpose do not grow with each job. One that outlives closing the device is enough",
        limits=MappingProxyType({"buffers": 10}),
        check=buffers.buffers_leaked,
        needs=_timed(("ivpu_bo_create_ioctl",)),
    ),
    Rule(
        "npu.allocation-tail",
        "warning",
        "the slowest of {allocations:allocation|allocations} took far longer than most",
        "Most buffers are created quickly; some had to wait, usually for memory that the kernel reclaims or compacts.",
        "Create large buffers once and early, and check the machine's free memory (`vmstat`, /proc/pressure/memory).",
        threshold=20,
        unit="times the median, at the 99th percentile",
        source=f"the time to clear pages varies less between buffers of one size. {_NOISE}",
        limits=MappingProxyType({"allocations": 100, "stalls": 2}),
        check=buffers.allocation_tail,
        needs=_timed(("ivpu_bo_create_ioctl",)),
    ),
    Rule(
        "npu.ipc-polling",
        "note",
        "{calls:polling call|polling calls} for {messages:message|messages}",
        "A loop in the driver kept checking whether a message had arrived. These calls show how long the wait was, not "
        "how many messages there were: counts of `ivpu_ipc_*` do not measure the traffic.",
        "Count messages with `result.npu.messages`; keep the boot out of the measured cell.",
        threshold=10,
        unit="polling calls per message",
        source="waiting for a message with an interrupt takes fewer than ten calls",
        limits=MappingProxyType({"calls": 100}),
        explained_by=("boot-failed", "boot-slow"),
        check=firmware.ipc_polling,
        needs=DriverNeeds(("ivpu_ipc_receive", "ivpu_ipc_irq_handler"), events=True),
    ),
    Rule(
        "npu.ipc-storm",
        "warning",
        "{requests:request|requests} to the firmware for {jobs:job|jobs}",
        "A job needs a doorbell and no request. Requests belong to opening, closing, booting and queues; so many of "
        "them mean that something keeps sending requests.",
        "See what sends them, and of which kind: `result.npu.messages.groupby(['name', 'tid']).size()`. Common causes "
        "are queues created for each job, and monitoring tools.",
        threshold=3,
        unit="requests per job, beyond 10 for each opening, boot and recovery",
        source="drivers/accel/ivpu: a context with its queues takes six to eight requests during its lifetime",
        limits=MappingProxyType({"requests": 100, "per_context": 10}),
        explained_by=("request-unanswered",),
        check=firmware.ipc_storm,
        needs=DriverNeeds(("ivpu_ipc_send",)),
    ),
)
"""Reported in this order within a severity."""
