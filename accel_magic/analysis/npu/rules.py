"""The rules of diagnosis, as data: what is looked for, from which limit on, where the limit is from, and what to say.

Limits are ratios within one trace, or shares of the driver's own time-outs, so that they hold on a real NPU, under
emulation and on a busy machine alike. `accel_magic.analysis.npu.evidence` has one function per rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.findings import BaseRule

if TYPE_CHECKING:
    from collections.abc import Mapping


BOOT_TIMEOUT_NS: Final = 1_000_000_000
"""How long the driver waits for the firmware's first message (drivers/accel/ivpu/ivpu_hw.c, `timeout.boot`)."""


EMULATION_STALL_NS: Final = 60_000_000
"""For how long an emulated NPU may be held up: it is a program among others. Measured with three on each processor."""


@dataclass(frozen=True)
class Rule(BaseRule):
    """One thing to look for; a name in the braces may have the word for what is counted, `{jobs:job|jobs}`.

    Attributes:
        limits: Further limits by name.
        needs: Functions of which at least one must have been traced; empty: none in particular.
        timed: Whether it needs times.
        counted: Whether counts are enough; all others need events.
        explained_by: Rules whose finding makes this one a mere consequence, not told again.

    """

    AREA = "npu"

    limits: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    needs: tuple[str, ...] = ()
    timed: bool = True
    counted: bool = False
    explained_by: tuple[str, ...] = ()


SUBMITS: Final = ("ivpu_submit_ioctl", "ivpu_cmdq_submit_ioctl")


_NOISE = (
    "An outlier must also last twice as long as the longest of the calls that wait for nothing: "
    "what a busy machine does to any call is no fault of the NPU's"
)


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "nothing-traced",
        "warning",
        "no call of the NPU driver was seen",
        "The probes were in place or there were none; either way nothing here says anything about the NPU.",
        "Trace with `%%ktrace npu`, check with `%accel_doctor` that the driver is loaded, and that the cell uses the "
        "NPU and not the CPU.",
        timed=False,
        counted=True,
    ),
    Rule(
        "events-lost",
        "warning",
        "{lost} of {hits:hit|hits} were counted but not recorded",
        "Counts stay exact. Jobs, buffers and phases are put together from events, so some of them are missing, and "
        "some of what is shown as unfinished may have ended.",
        "Raise `--buffer`, trace a part (`npu:jobs`), or a shorter stretch.",
        timed=False,
        counted=True,
    ),
    Rule(
        "event-limit",
        "warning",
        "recording ended early: the limit of events was reached",
        "What came later was counted, not recorded: jobs, buffers and phases end where the events do.",
        "Raise `--max-events`, or trace a part (`npu:jobs`).",
        timed=False,
        counted=True,
    ),
    Rule(
        "hits-missed",
        "warning",
        "{missed:hit|hits} missed",
        "The kernel could not run the probe for them. Counts are low by as much, and pairs of events may lack a half.",
        "Trace fewer functions: a part (`npu:jobs`) instead of all.",
        threshold=0.05,
        unit="of all hits",
        source="below it, counts and joins of the lab's runs stayed right",
        timed=False,
        counted=True,
    ),
    Rule(
        "boot-failed",
        "problem",
        "the firmware did not boot: {failed} of {boots:attempt|attempts}",
        "The driver waited for the firmware's first message until its time-out. It resets the NPU and tries once more "
        "from the start; when that fails too, the device is unusable, and on loading the driver there is no device.",
        "Look at `dmesg` for the driver's own report, and at the version of the firmware file. Load the driver again.",
        needs=("ivpu_wait_for_ready", "ivpu_boot"),
    ),
    Rule(
        "boot-slow",
        "warning",
        "{slow} of {boots:boot|boots} of the firmware took long",
        "The driver polls until the firmware answers. Whoever uses the NPU first after it slept waits for all of it.",
        "Keep the NPU awake where its first answer matters (`power/control` of the PCI device), and compare with "
        "another version of the firmware.",
        threshold=0.2,
        unit="of the driver's time-out for booting (1 s)",
        source="the driver gives up at all of it (drivers/accel/ivpu/ivpu_hw.c); a boot takes a few percent, under "
        "emulation too",
        needs=("ivpu_wait_for_ready",),
    ),
    Rule(
        "request-unanswered",
        "problem",
        "{unanswered} of {requests:request|requests} to the firmware went unanswered",
        "The driver asked the firmware and gave up waiting for the answer, so the answer was lost or never sent. What "
        "the request was for (a queue, a doorbell, a power state) is not in place, and what comes next may fail.",
        "Look at `dmesg`. If it repeats, load the driver again, or use another version of the firmware.",
        needs=("ivpu_ipc_send_receive_internal",),
    ),
    Rule(
        "reply-duplicated",
        "warning",
        "{unclaimed:message|messages} of the firmware came that nobody waited for",
        "More messages came than requests had answers and jobs had ends: answers came twice, or so late that the "
        "driver had given up. It throws them away, so nothing is wrong with the results; each costs an interrupt.",
        "Compare with another version of the firmware.",
        source="every message is the answer to a request, the end of a job, or of a boot",
        needs=("ivpu_hw_ip_ipc_rx_addr_get",),
    ),
    Rule(
        "job-hung",
        "problem",
        "{hung} of {jobs:job|jobs} hung",
        "The NPU was still at work on the job when the driver's time-out for jobs had passed, and did not get on. The "
        "driver resets the engine or all of the NPU; jobs that wait behind are lost or begun again.",
        "Find the job by its process and time. Look at `dmesg` and the driver's core dump, and try the same model with "
        "another version of the compiler or the firmware.",
        source="the driver's own time-out (`tdr_timeout_ms`, 2 s)",
        needs=("ivpu_job_timeout_work", "ivpu_bo_wait_ioctl"),
    ),
    Rule(
        "completion-lost",
        "problem",
        "the end of {lost} of {jobs:job|jobs} was never told",
        "The job was out for longer than the driver waits, while the NPU said that it was idle or went on with other "
        "jobs: the job was done, and the message or its interrupt was lost.",
        "Look at `dmesg`. Compare the interrupts of the NPU in /proc/interrupts with the jobs, and try another version "
        "of the firmware.",
        source="the driver's own time-out (`tdr_timeout_ms`, 2 s), or the program's",
        needs=("ivpu_job_timeout_work", "ivpu_bo_wait_ioctl"),
    ),
    Rule(
        "job-timeout",
        "problem",
        "{stuck} of {jobs:job|jobs} not done in time",
        "The driver or the program stopped waiting. Whether the job hung, its end was lost or it merely takes that "
        "long, this trace does not tell.",
        "Trace `npu` as a whole, for longer than the driver's time-out of 2 s: what the driver finds out then tells.",
        source="the driver's own time-out (`tdr_timeout_ms`, 2 s), or the program's",
        needs=("ivpu_job_timeout_work", "ivpu_bo_wait_ioctl"),
    ),
    Rule(
        "npu-reset",
        "problem",
        "the NPU was reset {resets:time|times}",
        "The driver gave up on the NPU's state and started it again. Jobs that were out were aborted; newer drivers "
        "take no more jobs from the process whose job caused it.",
        "Find the cause: what else was found here, `dmesg`, the driver's core dump.",
        needs=("ivpu_pm_recovery_work", "ivpu_pm_trigger_recovery", "ivpu_jsm_reset_engine"),
    ),
    Rule(
        "jobs-failed",
        "problem",
        "{failed:job|jobs} failed",
        "The NPU ended them with an error, or the driver did not take them (`refused`). Their results are not there.",
        "Look at the `code` in `result.npu.jobs`: of the NPU, or a negative errno of the driver (-77: this process's "
        "earlier job hung; -16: too many jobs are under way).",
        needs=SUBMITS,
    ),
    Rule(
        "completion-duplicated",
        "warning",
        "the end of {told_twice} of {jobs:job|jobs} was told more than once",
        "The driver ignores the second message, or takes it for an error of a job that it does not know. If the number "
        "of the job is in use again by then, the wrong job ends.",
        "Compare with another version of the firmware.",
        needs=("ivpu_job_done_callback",),
    ),
    Rule(
        "jobs-slow",
        "warning",
        "{slow} of {jobs:job|jobs} took far longer on the NPU than the others",
        "The NPU had the job and sent no message all that time: it was not the program, the driver or the queue. All "
        "jobs behind it waited too.",
        "See whether they have something in common (`result.npu.jobs`: process, size, time), whether the NPU was "
        "clocked down, and whether another process had it.",
        threshold=20,
        unit="times a typical job's time on the NPU (mean of the shorter three quarters)",
        source=f"clean runs of the lab stay below it but for what holds up the whole machine. {_NOISE}",
        limits=MappingProxyType({"jobs": 5, "stalls": 2, "emulation_ns": EMULATION_STALL_NS}),
        needs=SUBMITS,
    ),
    Rule(
        "boot-in-region",
        "note",
        "{jobs:job|jobs} waited for the NPU to wake",
        "The NPU slept, and the first use of it had to wait until the firmware was up. A measurement over this stretch "
        "has the boot in it.",
        "Use the NPU once before the cell that measures, or leave the first job out.",
        source="the stretch of the trace in which a submission waited for the driver to resume",
        needs=("ivpu_pm_runtime_resume_cb", "ivpu_boot"),
        timed=False,
        explained_by=("boot-failed", "boot-slow", "wake-per-job"),
    ),
    Rule(
        "wake-per-job",
        "note",
        "{woken} of {jobs:job|jobs} had to wait for the NPU to wake",
        "The driver puts the NPU to sleep when it has been idle for some 10 ms or more. Jobs come further apart than "
        "that, so each pays for a boot of the firmware.",
        "Keep the NPU awake (`echo on > /sys/bus/pci/devices/.../power/control`), raise `autosuspend_delay_ms` beside "
        "it, or submit jobs in batches.",
        threshold=0.2,
        unit="of the jobs",
        source="from one in five on, waking is part of the typical job",
        limits=MappingProxyType({"wakes": 3}),
        needs=("ivpu_pm_runtime_resume_cb",),
        explained_by=("boot-failed", "boot-slow"),
    ),
    Rule(
        "jobs-serialised",
        "note",
        "{pairs:time|times} a job was ready and waited for the one before",
        "A thread submits, waits, and submits again with nothing to prepare in between. The NPU idles from one job's "
        "end until the thread has woken and the next job has come through.",
        "Have two or more jobs under way: asynchronous inference requests, several command lists or fences, and wait "
        "for the oldest.",
        threshold=0.2,
        unit="of the time from the first such job to the last, in which the NPU idled",
        source="less than a fifth is not worth a change of the program",
        limits=MappingProxyType({"pairs": 10, "pairs_share": 0.5}),
        needs=SUBMITS,
    ),
    Rule(
        "pages-remapped",
        "warning",
        "{buffers:buffer|buffers} mapped again",
        "More pages were written into the NPU's page tables than the buffers have: the same buffers were mapped, taken "
        "out and mapped again.",
        "Keep buffers bound between jobs: keep the objects that own them, and the device open.",
        threshold=1,
        unit="times the buffers' own pages",
        source="each page needs one entry for as long as the buffer lives",
        needs=("ivpu_mmu_context_map_page",),
    ),
    Rule(
        "buffers-churned",
        "note",
        "{single_use:buffer|buffers} served one job each, at a higher cost than the job's",
        "Buffers are made, mapped, used once and freed. That takes longer than the jobs themselves.",
        "Make buffers once and use them again: tensors that are set up before the loop, a pool.",
        threshold=1,
        unit="times the median time of a job on the NPU, for its buffers' creation, mapping and freeing",
        source="from there on the buffers are more work than the job",
        limits=MappingProxyType({"jobs": 20}),
        needs=("ivpu_bo_create_ioctl",),
    ),
    Rule(
        "buffers-leaked",
        "warning",
        "{leaked} of {created:buffer|buffers} not given back",
        "They outlived the device's closing, or there is one more with each job: memory that the NPU's jobs no longer "
        "use and nobody else gets.",
        "Free them, or let go of what owns them: requests, tensors, command lists.",
        threshold=0.5,
        unit="buffers per job that stay",
        source="a buffer kept on purpose does not come once per job. One that outlives the device's closing is enough",
        limits=MappingProxyType({"buffers": 10}),
        needs=("ivpu_bo_create_ioctl",),
    ),
    Rule(
        "allocation-tail",
        "warning",
        "the slowest of {allocations:allocation|allocations} took far longer than most",
        "Most buffers are made quickly; some had to wait, as a rule for memory: the kernel reclaims or compacts it.",
        "Make large buffers once and early, and look at the machine's free memory (`vmstat`, /proc/pressure/memory).",
        threshold=20,
        unit="times the median, at the 99th percentile",
        source=f"page clearing differs by less between buffers of one size. {_NOISE}",
        limits=MappingProxyType({"allocations": 100, "stalls": 2}),
        needs=("ivpu_bo_create_ioctl",),
    ),
    Rule(
        "ipc-polling",
        "note",
        "{calls:call|calls} of polling beside {messages:message|messages}",
        "A loop of the driver asked again and again whether a message had come. These calls say how long the wait was, "
        "not how much was said: counts of `ivpu_ipc_*` are no measure of the traffic.",
        "Count messages with `result.npu.messages`; keep the boot out of the cell that measures.",
        threshold=10,
        unit="calls of polling per message",
        source="a message that is waited for with an interrupt takes fewer than ten calls",
        limits=MappingProxyType({"calls": 100}),
        needs=("ivpu_ipc_receive", "ivpu_ipc_irq_handler"),
        timed=False,
        explained_by=("boot-failed", "boot-slow"),
    ),
    Rule(
        "ipc-storm",
        "warning",
        "{requests:request|requests} to the firmware for {jobs:job|jobs}",
        "A job needs a doorbell and no request. Requests belong to opening, closing, booting and to queues; so many "
        "more mean that something asks all the time.",
        "See who sends them and of what kind: `result.npu.messages.groupby(['name', 'tid']).size()`. Queues that are "
        "made for each job and monitoring tools are the usual ones.",
        threshold=3,
        unit="requests per job, beyond 10 for each opening, boot and recovery",
        source="drivers/accel/ivpu: a context with its queues takes six to eight requests from beginning to end",
        limits=MappingProxyType({"requests": 100, "per_context": 10}),
        needs=("ivpu_ipc_send",),
        timed=False,
        counted=True,
        explained_by=("request-unanswered",),
    ),
)
"""In the order in which they are told, within a severity."""
