"""The preset `nvidia`: NVIDIA's open kernel modules, which have no tracepoints.

All calls of the CUDA driver into `nvidia` pass through one function, with the ioctl's number; managed memory has a
function of `nvidia_uvm` for each. Names are those of the stock open modules; versions differ in the functions that
handle faults. Nobody has tried this preset on such a GPU.
"""

from __future__ import annotations

from typing import Final

from accel_magic.probes.presets import Preset, timed

IOCTL: Final = "nvidia_unlocked_ioctl"

_UVM_CALLS = (
    "uvm_api_register_gpu uvm_api_unregister_gpu uvm_api_register_gpu_va_space uvm_api_unregister_gpu_va_space "
    "uvm_api_register_channel uvm_api_unregister_channel uvm_api_create_external_range uvm_api_map_external_allocation "
    "uvm_api_unmap_external uvm_api_free uvm_api_migrate uvm_api_migrate_range_group uvm_api_set_preferred_location "
    "uvm_api_unset_preferred_location uvm_api_set_accessed_by uvm_api_unset_accessed_by uvm_api_populate_pageable "
    "uvm_api_enable_read_duplication uvm_api_disable_read_duplication uvm_api_enable_peer_access"
)
_GPU_FAULTS = "uvm_parent_gpu_service_replayable_faults uvm_gpu_service_replayable_faults"

PRESET: Final = Preset(
    name="nvidia",
    probes=(
        *timed("nvidia:ioctls", "nvidia", IOCTL, "ioctl=arg1:u32"),
        *timed("nvidia:uvm", "nvidia_uvm", _UVM_CALLS, group="a call of managed memory"),
        *timed("nvidia:faults", "nvidia_uvm", _GPU_FAULTS, group="servicing GPU faults"),
        *timed("nvidia:faults", "nvidia_uvm", "uvm_va_block_cpu_fault uvm_va_block_service_locked"),
        *timed("nvidia:eviction", "nvidia_uvm", "uvm_va_block_evict_chunks evict_root_chunk", group="evicting memory"),
        *timed("nvidia:eviction", "nvidia_uvm", "uvm_va_block_make_resident_copy", group="moving memory"),
    ),
)

_IOCTLS: Final = {
    0x27: "NV_ESC_RM_ALLOC_MEMORY",
    0x28: "NV_ESC_RM_ALLOC_OBJECT",
    0x29: "NV_ESC_RM_FREE",
    0x2A: "NV_ESC_RM_CONTROL",
    0x2B: "NV_ESC_RM_ALLOC",
    0x34: "NV_ESC_RM_DUP_OBJECT",
    0x35: "NV_ESC_RM_SHARE",
    0x41: "NV_ESC_RM_IDLE_CHANNELS",
    0x4A: "NV_ESC_RM_VID_HEAP_CONTROL",
    0x4E: "NV_ESC_RM_MAP_MEMORY",
    0x4F: "NV_ESC_RM_UNMAP_MEMORY",
    0x52: "NV_ESC_RM_GET_EVENT_DATA",
    0x54: "NV_ESC_RM_ALLOC_CONTEXT_DMA2",
    0x57: "NV_ESC_RM_MAP_MEMORY_DMA",
    0x58: "NV_ESC_RM_UNMAP_MEMORY_DMA",
    0x59: "NV_ESC_RM_BIND_CONTEXT_DMA",
    0x5C: "NV_ESC_RM_EXPORT_OBJECT_TO_FD",
    0x5D: "NV_ESC_RM_IMPORT_OBJECT_FROM_FD",
    0x5E: "NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO",
    200: "NV_ESC_CARD_INFO",
    201: "NV_ESC_REGISTER_FD",
    206: "NV_ESC_ALLOC_OS_EVENT",
    207: "NV_ESC_FREE_OS_EVENT",
    209: "NV_ESC_STATUS_CODE",
    210: "NV_ESC_CHECK_VERSION_STR",
    211: "NV_ESC_IOCTL_XFER_CMD",
    212: "NV_ESC_ATTACH_GPUS_TO_FD",
    213: "NV_ESC_QUERY_DEVICE_INTR",
    214: "NV_ESC_SYS_PARAMS",
    217: "NV_ESC_EXPORT_TO_DMABUF_FD",
    218: "NV_ESC_WAIT_OPEN_COMPLETE",
}
"""By number (nv_escape.h and nv-ioctl-numbers.h of the open modules)."""


def ioctl_name(command: int) -> str:
    """Name of an ioctl on the driver's device files."""
    number = command & 0xFF
    return _IOCTLS.get(number, f"NVIDIA ioctl {number:#04x}")
