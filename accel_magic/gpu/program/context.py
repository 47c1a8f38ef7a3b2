"""The context of a probe inside a GPU kernel: the struct that a program's first argument points to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Space(IntEnum):
    """PTX state space of a memory access; GENERIC if the instruction names none."""

    GENERIC = 0
    GLOBAL = 1
    SHARED = 2
    LOCAL = 3
    CONST = 4
    PARAM = 5


class Operation(IntEnum):
    """The memory operation of an instruction; NONE at probes elsewhere."""

    NONE = 0
    LOAD = 1
    STORE = 2
    ATOMIC = 3
    ASYNC_COPY = 4


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the context: its position, and the origin of its value.

    `injected` fields are arguments of the program's function at each injected copy, in the order of the table; the
    program itself reads the others on the device.
    """

    name: str
    offset: int
    size: int
    injected: bool


FIELDS: Final = (
    Field("address", 0, 8, injected=True),  # of the access, in the window of its space (generic for GENERIC)
    Field("size", 8, 4, injected=True),  # bytes that one lane accesses
    Field("space", 12, 4, injected=True),  # Space
    Field("operation", 16, 4, injected=True),  # Operation
    Field("site", 20, 4, injected=True),  # number of the site within the traced cell
    Field("kernel", 24, 4, injected=True),  # number of the kernel within the traced cell
    Field("active", 28, 4, injected=False),  # mask of the warp's lanes that are at the probe
    Field("launch", 32, 8, injected=False),  # the launch's number on the device (%gridid)
)
"""Fields of `struct gpu_ctx` in bpf/gpu/accel_gpu.h; read-only. Each field must be read with its own size."""

SIZE: Final = 40
"""Bytes of the struct."""

PARAMETERS: Final = tuple((field.name, field.size) for field in FIELDS if field.injected)
"""(name, bytes) of the parameters of a compiled probe, in order."""
