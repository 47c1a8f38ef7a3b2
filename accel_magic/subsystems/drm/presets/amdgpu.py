"""The preset `amdgpu`: AMD's driver. Its graphics jobs are those of the DRM scheduler: trace `drm` with it.

ROCm and HIP submit through queues in user space, which no driver sees: `amdgpu:kfd` has the calls that create and map
them, and wait. Tracepoints change between kernels, so they are selected by globs. Names are those of
the drivers of Linux 6.12 to 7.2. Nobody has tried this preset on such a GPU.
"""

from __future__ import annotations

from typing import Final

from accel_magic.probes.presets import Preset, timed, tracepoints

_IOCTLS = (
    "amdgpu_info_ioctl amdgpu_ctx_ioctl amdgpu_vm_ioctl amdgpu_sched_ioctl amdgpu_bo_list_ioctl amdgpu_cs_ioctl "
    "amdgpu_cs_wait_ioctl amdgpu_cs_wait_fences_ioctl amdgpu_cs_fence_to_handle_ioctl amdgpu_gem_create_ioctl "
    "amdgpu_gem_mmap_ioctl amdgpu_gem_metadata_ioctl amdgpu_gem_op_ioctl amdgpu_gem_userptr_ioctl amdgpu_gem_va_ioctl "
    "amdgpu_gem_wait_idle_ioctl amdgpu_gem_list_handles_ioctl amdgpu_userq_ioctl amdgpu_userq_signal_ioctl "
    "amdgpu_userq_wait_ioctl"
)
_KFD = (
    "kfd_ioctl_create_queue kfd_ioctl_update_queue kfd_ioctl_destroy_queue kfd_ioctl_acquire_vm "
    "kfd_ioctl_alloc_memory_of_gpu kfd_ioctl_free_memory_of_gpu kfd_ioctl_map_memory_to_gpu "
    "kfd_ioctl_unmap_memory_from_gpu kfd_ioctl_svm kfd_ioctl_import_dmabuf kfd_ioctl_export_dmabuf "
    "kfd_ioctl_create_event kfd_ioctl_destroy_event kfd_ioctl_set_event kfd_ioctl_reset_event kfd_ioctl_wait_events"
)

PRESET: Final = Preset(
    name="amdgpu",
    probes=(
        *timed("amdgpu:ioctls", "amdgpu", _IOCTLS, group="an ioctl of amdgpu"),
        *timed("amdgpu:kfd", "amdgpu", _KFD, group="an ioctl of the compute driver"),
        *tracepoints("amdgpu:jobs", "amdgpu", "amdgpu_cs* amdgpu_sched_run_job"),
        *tracepoints("amdgpu:memory", "amdgpu", "amdgpu_bo_* amdgpu_vm_*"),
        *tracepoints("amdgpu:interrupts", "amdgpu", "amdgpu_iv"),
    ),
    interrupt_events=("amdgpu", "amdgpu_dm"),
)
