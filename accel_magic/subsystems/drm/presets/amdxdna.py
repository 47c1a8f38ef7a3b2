"""The preset `amdxdna`: AMD's NPU driver. Its jobs are those of the DRM scheduler: trace `drm` with it.

`xdna_job` has the context and number of the job's fence. Names are those of the drivers of Linux 6.18 to 7.2. Nobody
has tried this preset on such an NPU.
"""

from __future__ import annotations

from typing import Final

from accel_magic.probes.presets import Preset, timed, tracepoints

_IOCTLS = (
    "amdxdna_drm_create_hwctx_ioctl amdxdna_drm_destroy_hwctx_ioctl amdxdna_drm_config_hwctx_ioctl "
    "amdxdna_drm_create_bo_ioctl amdxdna_drm_get_bo_info_ioctl amdxdna_drm_sync_bo_ioctl amdxdna_drm_submit_cmd_ioctl "
    "amdxdna_drm_wait_cmd_ioctl amdxdna_drm_get_info_ioctl amdxdna_drm_get_array_ioctl amdxdna_drm_set_state_ioctl"
)

PRESET: Final = Preset(
    name="amdxdna",
    probes=(
        *timed("amdxdna:ioctls", "amdxdna", _IOCTLS, group="an ioctl of amdxdna"),
        *tracepoints("amdxdna:jobs", "amdxdna", "xdna_job"),
        *tracepoints("amdxdna:mailbox", "amdxdna", "mbox_set_tail mbox_set_head mbox_irq_handle mbox_rx_worker"),
    ),
    interrupt_events=("amdxdna",),
)
