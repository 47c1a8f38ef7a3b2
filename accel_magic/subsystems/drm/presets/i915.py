"""The preset `i915`: Intel's driver for older GPUs. It has a scheduler of its own, not that of `drm`.

Names are those of the drivers of Linux 6.12 to 7.2. Nobody has tried this preset on such a GPU.
"""

from __future__ import annotations

from typing import Final

from accel_magic.probes.presets import Preset, timed, tracepoints

_IOCTLS = (
    "i915_getparam_ioctl i915_query_ioctl i915_gem_create_ioctl i915_gem_create_ext_ioctl i915_gem_userptr_ioctl "
    "i915_gem_mmap_ioctl i915_gem_mmap_offset_ioctl i915_gem_pread_ioctl i915_gem_pwrite_ioctl "
    "i915_gem_set_domain_ioctl i915_gem_sw_finish_ioctl i915_gem_madvise_ioctl i915_gem_get_caching_ioctl "
    "i915_gem_set_caching_ioctl i915_gem_get_tiling_ioctl i915_gem_set_tiling_ioctl i915_gem_get_aperture_ioctl "
    "i915_gem_execbuffer2_ioctl i915_gem_wait_ioctl i915_gem_busy_ioctl i915_gem_throttle_ioctl "
    "i915_gem_context_create_ioctl i915_gem_context_destroy_ioctl i915_gem_context_getparam_ioctl "
    "i915_gem_context_setparam_ioctl i915_gem_context_reset_stats_ioctl i915_gem_vm_create_ioctl "
    "i915_gem_vm_destroy_ioctl i915_reg_read_ioctl i915_perf_open_ioctl"
)
_LOW_LEVEL = "kernels built with CONFIG_DRM_I915_LOW_LEVEL_TRACEPOINTS"

PRESET: Final = Preset(
    name="i915",
    probes=(
        *timed("i915:ioctls", "i915", _IOCTLS, group="an ioctl of i915"),
        *tracepoints(
            "i915:requests",
            "i915",
            "i915_request_queue i915_request_add i915_request_retire i915_request_wait_begin i915_request_wait_end",
        ),
        *tracepoints(
            "i915:requests",
            "i915",
            "i915_request_submit i915_request_execute i915_request_in i915_request_out",
            _LOW_LEVEL,
        ),
        *tracepoints("i915:memory", "i915", "i915_gem_* i915_vma_*"),
    ),
    interrupt_events=("i915",),
)
