"""The preset `xe`: Intel's driver for recent GPUs. Its jobs are those of the DRM scheduler: trace `drm` with it.

Names are those of the drivers of Linux 6.12 to 7.2. Nobody has tried this preset on such a GPU.
"""

from __future__ import annotations

from typing import Final

from accel_magic.probes.presets import Preset, timed, tracepoints

_IOCTLS = (
    "xe_query_ioctl xe_gem_create_ioctl xe_gem_mmap_offset_ioctl xe_vm_create_ioctl xe_vm_destroy_ioctl "
    "xe_vm_bind_ioctl xe_vm_madvise_ioctl xe_vm_query_vmas_attrs_ioctl xe_vm_get_property_ioctl xe_exec_ioctl "
    "xe_exec_queue_create_ioctl xe_exec_queue_destroy_ioctl xe_exec_queue_get_property_ioctl "
    "xe_exec_queue_set_property_ioctl xe_wait_user_fence_ioctl xe_observation_ioctl"
)

PRESET: Final = Preset(
    name="xe",
    probes=(
        *timed("xe:ioctls", "xe", _IOCTLS, group="an ioctl of xe"),
        *tracepoints("xe:jobs", "xe", "xe_sched_job_*"),
        *tracepoints("xe:queues", "xe", "xe_exec_queue_*"),
        *tracepoints("xe:fences", "xe", "xe_hw_fence_*"),
        *tracepoints("xe:memory", "xe", "xe_bo_* xe_vma_*"),
    ),
    interrupt_events=("xe",),
)
