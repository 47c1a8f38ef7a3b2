"""The preset `drm`: the kernel's DRM scheduler, which most GPU drivers and some NPU drivers share.

Linux 6.17 renamed its tracepoints, declared them stable, and identifies a job by its fence's context and number; older
kernels identify it by the fence's address. Drivers with a scheduler of their own (i915, ivpu) appear only in the parts
`drm:fences` and `drm:ioctls`.
"""

from __future__ import annotations

from typing import Final

from accel_magic.probes.presets import Preset, PresetProbe

NAME: Final = "drm"
JOBS, TIMEOUTS, FENCES, IOCTLS = (f"{NAME}:{part}" for part in ("jobs", "timeouts", "fences", "ioctls"))

SCHEDULER: Final = "gpu_scheduler"
"""Category of the scheduler's tracepoints."""
TIMEOUT: Final = "drm_sched_job_timedout"
"""Called when a job has been running for longer than its driver allows."""
IOCTL: Final = "drm_ioctl"

QUEUED: Final = ("drm_sched_job_queue", "drm_sched_job")
STARTED: Final = ("drm_sched_job_run", "drm_run_job")
DONE: Final = ("drm_sched_job_done", "drm_sched_process_job")
DEPENDS: Final = ("drm_sched_job_add_dep",)
BLOCKED: Final = ("drm_sched_job_unschedulable", "drm_sched_job_wait_dep")
"""Names of each step's tracepoint, the newest first: a job is held back by a dependency (`BLOCKED`) only if that fence
is not signaled when its turn comes."""

_NEW, _OLD = "Linux 6.17 and newer", "kernels before Linux 6.17"
_SINCE_6_17: Final = (QUEUED[0], STARTED[0], DONE[0], *DEPENDS, BLOCKED[0])
_BEFORE: Final = (QUEUED[1], STARTED[1], DONE[1], BLOCKED[1])
_FENCE_EVENTS: Final = ("dma_fence_wait_start", "dma_fence_wait_end", "dma_fence_signaled")

PRESET: Final = Preset(
    name=NAME,
    probes=(
        *(
            PresetProbe(JOBS, f"tracepoint:{SCHEDULER}:{event}", group=f"the scheduler of {kernels}", kernels=kernels)
            for kernels, events in ((_NEW, _SINCE_6_17), (_OLD, _BEFORE))
            for event in events
        ),
        PresetProbe(TIMEOUTS, f"latency:kprobe:gpu_sched:{TIMEOUT}"),
        *(PresetProbe(FENCES, f"tracepoint:dma_fence:{event}") for event in _FENCE_EVENTS),
        PresetProbe(IOCTLS, f"latency:kprobe:drm:{IOCTL}", "ioctl=arg1:u32"),
    ),
    interrupt_events=("drm", SCHEDULER, "dma_fence"),
)

_CORE_IOCTLS: Final = {
    0x00: "DRM_IOCTL_VERSION",
    0x09: "DRM_IOCTL_GEM_CLOSE",
    0x0C: "DRM_IOCTL_GET_CAP",
    0x0D: "DRM_IOCTL_SET_CLIENT_CAP",
    0x2D: "DRM_IOCTL_PRIME_HANDLE_TO_FD",
    0x2E: "DRM_IOCTL_PRIME_FD_TO_HANDLE",
    0xBF: "DRM_IOCTL_SYNCOBJ_CREATE",
    0xC0: "DRM_IOCTL_SYNCOBJ_DESTROY",
    0xC1: "DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD",
    0xC2: "DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE",
    0xC3: "DRM_IOCTL_SYNCOBJ_WAIT",
    0xC4: "DRM_IOCTL_SYNCOBJ_RESET",
    0xC5: "DRM_IOCTL_SYNCOBJ_SIGNAL",
    0xCA: "DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT",
    0xCB: "DRM_IOCTL_SYNCOBJ_QUERY",
    0xCC: "DRM_IOCTL_SYNCOBJ_TRANSFER",
    0xCD: "DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL",
}
"""Ioctls of all DRM drivers, by number (include/uapi/drm/drm.h)."""
_DRIVERS_FIRST, _DRIVERS_END = 0x40, 0xA0


def ioctl_name(command: int) -> str:
    """Name of an ioctl on a DRM device; those of a driver by their number, which differs among drivers."""
    number = command & 0xFF
    if _DRIVERS_FIRST <= number < _DRIVERS_END:
        return f"driver ioctl {number - _DRIVERS_FIRST:#04x}"
    return _CORE_IOCTLS.get(number, f"DRM ioctl {number:#04x}")
