"""The preset `habanalabs`: the driver of Intel's Gaudi. It has a scheduler of its own, not that of `drm`.

Names are those of the drivers of Linux 6.12 to 7.2. Nobody has tried this preset on such a device.
"""

from __future__ import annotations

from typing import Final

from accel_magic.probes.presets import Preset, timed, tracepoints

_IOCTLS = "hl_info_ioctl hl_cb_ioctl hl_cs_ioctl hl_wait_ioctl hl_mem_ioctl hl_debug_ioctl"

PRESET: Final = Preset(
    name="habanalabs",
    probes=(
        *timed("habanalabs:ioctls", "habanalabs", _IOCTLS, group="an ioctl of habanalabs"),
        *tracepoints(
            "habanalabs:memory",
            "habanalabs",
            "habanalabs_mmu_map habanalabs_mmu_unmap habanalabs_dma_alloc habanalabs_dma_free",
        ),
    ),
    interrupt_events=("habanalabs",),
)
