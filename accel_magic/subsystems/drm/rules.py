"""What to look for in a trace of the DRM scheduler: the limits with their sources, and the texts of the findings.

Limits are ratios within one trace, so they apply to any GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.analysis.driver_trace import DriverNeeds
from accel_magic.findings import Rule
from accel_magic.subsystems.drm import checks
from accel_magic.subsystems.drm.presets import drm

if TYPE_CHECKING:
    from accel_magic.subsystems.drm.checks import DrmData

RULES: Final[tuple[Rule[DrmData], ...]] = (
    Rule(
        "drm.nothing-traced",
        "warning",
        "no job of the DRM scheduler was seen",
        "Nothing was submitted while the trace ran, or the driver has a scheduler of its own (i915, ivpu, NVIDIA's).",
        "Check which driver the device has (`lspci -k`), and trace it with its own preset.",
        check=checks.nothing_traced,
        needs=DriverNeeds(drm.QUEUED),
    ),
    Rule(
        "drm.events-lost",
        "warning",
        "{lost:,.0f} of {hits:,.0f} steps of jobs were counted but not recorded",
        "The counts in `t.drm.steps` are exact. Jobs, waits and statistics come from the recorded events, so some are "
        "missing, and some that appear unfinished may have ended.",
        "Raise `--buffer` or `--max-events`, or trace only `drm:jobs`.",
        check=checks.events_lost,
    ),
    Rule(
        "drm.jobs-timed-out",
        "problem",
        "the scheduler gave up on a job {timeouts:time|times}",
        "A job ran for longer than its driver allows. The driver resets the ring or the device; the job's results are "
        "lost, and other jobs on the ring waited for all that time.",
        "Look in `dmesg` for the driver's report, and at the jobs with the status `timed out` in `t.gpu_jobs`. Split "
        "long jobs, or find what the job waits for.",
        check=checks.jobs_timed_out,
        needs=DriverNeeds((drm.TIMEOUT,)),
    ),
    Rule(
        "drm.queue-wait",
        "warning",
        "jobs waited {ratio:,.1f} times as long in their queues as they ran",
        "The device has more work than it completes in time, or jobs wait for dependencies (`blocked` in "
        "`t.gpu_jobs`). Longer queues make no job faster.",
        "Submit fewer and larger jobs, limit how many are in flight, and compare `t.drm.clients`: another program may "
        "use the same ring.",
        threshold=1.0,
        unit="times the time on the device, summed over at least 5 jobs",
        source="above 1, a job spends most of its time waiting",
        check=checks.queue_wait,
        needs=DriverNeeds(drm.QUEUED),
    ),
    Rule(
        "drm.ring-full",
        "warning",
        "ring {ring} had several jobs waiting while all others were idle, for {full_share:.0%} of the time",
        "Work that could run at the same time was submitted to one ring.",
        "Spread the jobs over the rings, if they are of the same kind and the driver lets you choose: another queue, "
        "context or engine.",
        threshold=0.2,
        unit="share of the time from the first job to the last, with at least 3 jobs waiting that nothing blocked",
        source="a fifth; one waiting job keeps a ring busy, more do not",
        check=checks.ring_full,
        needs=DriverNeeds(drm.QUEUED),
    ),
    Rule(
        "drm.dependencies-serialise",
        "warning",
        "{blocked_share:.0%} of the jobs waited for a job on another ring, and the rings took turns",
        "Each ring was idle while another one worked, so using several rings gained nothing.",
        "Remove dependencies that are not needed, or make independent chains: `t.drm.dependencies` shows which job "
        "waited for which.",
        threshold=0.3,
        unit="share of the jobs, while at least two rings ran at once for less than a tenth of the busy time",
        source="a third of the jobs are enough to keep two rings from overlapping",
        check=checks.dependencies_serialise,
        needs=DriverNeeds(drm.BLOCKED),
    ),
    Rule(
        "drm.fence-waits",
        "note",
        "{call} waited for fences for {wait_share:.0%} of the traced time ({waits:,.0f} waits)",
        "The thread did nothing but wait for the device. That is where the program synchronizes with it.",
        "Wait later or less often: submit the next work before waiting for the last, or wait once for several jobs.",
        threshold=0.25,
        unit="share of the traced time, in one call of one thread",
        source="below a quarter, overlapping would not gain much",
        check=checks.fence_waits,
        needs=DriverNeeds(("dma_fence_wait_start",)),
    ),
)
