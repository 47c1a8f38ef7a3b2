"""The part of the intel_vpu driver's interface that the loads use: structures, request numbers, names.

Transcribed from the kernel's documented ABI (include/uapi/drm/ivpu_accel.h and drm.h); `npu_uapi.h` is the same in C.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import ClassVar

U32, U64, I64 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64

NODE = "/dev/accel/accel0"
DRIVER = "intel_vpu"
COMPUTE_ENGINE = 0
JOB_SUCCESS, JOB_ABORTED = 0, 0x100


class BufferFlags(IntFlag):
    """Flags of BO_CREATE."""

    CACHED = 0
    SHAVE_MEM = 0x1  # in the address range of the compute cores, above 4 GB
    MAPPABLE = 0x2
    DMA_MEM = 0x4
    WC = 0x20000  # write combining


class Priority(IntEnum):
    """Priority of a job or a queue."""

    DEFAULT = 0
    IDLE = 1
    NORMAL = 2
    FOCUS = 3
    REALTIME = 4


class _Structure(ctypes.Structure):
    _fields_: ClassVar[list[tuple[str, type]]] = []


class Version(_Structure):
    """Argument of VERSION; pointers are 64-bit integers."""

    _fields_: ClassVar = [
        ("major", ctypes.c_int32),
        ("minor", ctypes.c_int32),
        ("patch", ctypes.c_int32),
        ("name_size", U64),
        ("name", U64),
        ("date_size", U64),
        ("date", U64),
        ("description_size", U64),
        ("description", U64),
    ]


class Param(_Structure):
    """Argument of GET_PARAM."""

    _fields_: ClassVar = [("param", U32), ("index", U32), ("value", U64)]


class BoCreate(_Structure):
    """Argument of BO_CREATE; returns `handle` and `address` (in the NPU's address space)."""

    _fields_: ClassVar = [("size", U64), ("flags", U32), ("handle", U32), ("address", U64)]


class BoInfo(_Structure):
    """Argument of BO_INFO; returns all fields but `handle`; `size` is a multiple of the page size."""

    _fields_: ClassVar = [("handle", U32), ("flags", U32), ("address", U64), ("mmap_offset", U64), ("size", U64)]


class Submit(_Structure):
    """Argument of SUBMIT; `buffers` points to 32-bit handles, starting with the command buffer's."""

    _fields_: ClassVar = [
        ("buffers", U64),
        ("buffer_count", U32),
        ("engine", U32),
        ("flags", U32),
        ("commands_offset", U32),
        ("priority", U32),
    ]


class BoWait(_Structure):
    """Argument of BO_WAIT; the deadline is a CLOCK_MONOTONIC time; returns `job_status`."""

    _fields_: ClassVar = [("handle", U32), ("flags", U32), ("deadline_ns", I64), ("job_status", U32), ("pad", U32)]


class CmdqCreate(_Structure):
    """Argument of CMDQ_CREATE; returns `queue`."""

    _fields_: ClassVar = [("queue", U32), ("priority", U32), ("flags", U32)]


class CmdqDestroy(_Structure):
    """Argument of CMDQ_DESTROY."""

    _fields_: ClassVar = [("queue", U32)]


class CmdqSubmit(_Structure):
    """Argument of CMDQ_SUBMIT."""

    _fields_: ClassVar = [
        ("buffers", U64),
        ("buffer_count", U32),
        ("queue", U32),
        ("flags", U32),
        ("commands_offset", U32),
        ("preempt_buffer_index", U32),
        ("reserved", U32),
    ]


class GemClose(_Structure):
    """Argument of GEM_CLOSE."""

    _fields_: ClassVar = [("handle", U32), ("pad", U32)]


_WRITE, _BOTH = 1, 3


@dataclass(frozen=True)
class NpuIoctl:
    """One ioctl.

    Attributes:
        name: Name in the counts, e.g. `BO_CREATE`.
        number: Index in `CALLS`.
        request: The ioctl's request number.
        function: The kernel function that serves it, for comparison with a trace.

    """

    name: str
    number: int
    request: int
    function: str


def _calls(*rows: tuple[str, int, int, type[_Structure], str]) -> tuple[NpuIoctl, ...]:
    """Compute request numbers like _IOC() with DRM's type 'd'."""
    return tuple(
        NpuIoctl(name, number, direction << 30 | ctypes.sizeof(argument) << 16 | ord("d") << 8 | command, function)
        for number, (name, command, direction, argument, function) in enumerate(rows)
    )


CALLS = _calls(
    ("VERSION", 0x00, _BOTH, Version, "drm_version"),
    ("GET_PARAM", 0x40, _BOTH, Param, "ivpu_get_param_ioctl"),
    ("BO_CREATE", 0x42, _BOTH, BoCreate, "ivpu_bo_create_ioctl"),
    ("BO_INFO", 0x43, _BOTH, BoInfo, "ivpu_bo_info_ioctl"),
    ("CMDQ_CREATE", 0x4B, _BOTH, CmdqCreate, "ivpu_cmdq_create_ioctl"),
    ("SUBMIT", 0x45, _WRITE, Submit, "ivpu_submit_ioctl"),
    ("CMDQ_SUBMIT", 0x4D, _WRITE, CmdqSubmit, "ivpu_cmdq_submit_ioctl"),
    ("BO_WAIT", 0x46, _BOTH, BoWait, "ivpu_bo_wait_ioctl"),
    ("GEM_CLOSE", 0x09, _WRITE, GemClose, "drm_gem_close_ioctl"),
    ("CMDQ_DESTROY", 0x4C, _WRITE, CmdqDestroy, "ivpu_cmdq_destroy_ioctl"),
)
VERSION, GET_PARAM, BO_CREATE, BO_INFO, CMDQ_CREATE, SUBMIT, CMDQ_SUBMIT, BO_WAIT, GEM_CLOSE, CMDQ_DESTROY = CALLS

PARAMS: dict[str, tuple[int, int]] = {
    "device_id": (0, 0),
    "device_revision": (1, 0),
    "platform_type": (2, 0),
    "core_clock_rate": (3, 0),
    "num_contexts": (4, 0),
    "context_base_address": (5, 0),
    "fw_api_version": (8, 0),  # of the firmware's boot interface
    "engine_heartbeat": (9, COMPUTE_ENGINE),
    "unique_inference_id": (10, 0),
    "tile_config": (11, 0),
    "sku": (12, 0),
    "cap_metric_streamer": (13, 1),
    "cap_dma_memory_range": (13, 2),
    "cap_manage_cmdq": (13, 3),  # command queues; EINVAL on Linux 6.12
}
"""Parameters that a user-mode driver reads when it opens the device: name -> (parameter, index)."""

FAULT_MAGIC = 0x464C4D41
JOB_FAULTS = ("none", "slow", "hang", "lose", "duplicate")
"""Faults that a job can request from the lab's device, indexed by number."""
