"""Trace jobs on the kernel's DRM scheduler, which the lab's accelerator counts itself. Prints JSON."""

import json

import accel_magic
from accel_magic.lab.accelerator import Accelerator, counts
from accel_magic.lab.accelerator.uapi import Priority

SHORT_US, LONG_US = 2_000, 200_000
"""While the long job runs, a busy machine submits all others."""


def main():
    with accel_magic.trace("drm", scope="all") as trace, Accelerator() as device:
        fences = [device.fence() for _ in range(11)]
        device.submit(LONG_US, signal=fences[0])
        for fence in fences[1:6]:
            device.submit(SHORT_US, priority=Priority.LOW, signal=fence)
        for fence in fences[6:9]:
            device.submit(SHORT_US, priority=Priority.HIGH, signal=fence)
        device.submit(SHORT_US, ring="copy", wait=fences[8], signal=fences[9])
        device.submit(0, hang=True, ring="copy", signal=fences[10])
        device.wait(fences)
    jobs = trace.result.gpu_jobs
    columns = ["ring", "status", "queued_ns", "started_ns", "done_ns", "queue_ns", "run_ns", "dependencies", "timeouts"]
    print(
        json.dumps(
            {
                "counted": [row for row in counts.jobs() if row["client"] == 0],
                "jobs": json.loads(jobs[columns].to_json(orient="records")),
                "rings": json.loads(trace.result.drm.rings.to_json(orient="records")),
                "missed": trace.result.recording.missed,
                "findings": str(trace.result.diagnose()),
                "columns": list(jobs.columns),
            }
        )
    )


main()
