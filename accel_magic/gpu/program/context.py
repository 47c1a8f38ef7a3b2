"""What a probe inside a GPU kernel is told: the struct that a program's first argument points to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Space(IntEnum):
    """State space of a memory access, as PTX names it; GENERIC where the instruction does not say."""

    GENERIC = 0
    GLOBAL = 1
    SHARED = 2
    LOCAL = 3
    CONST = 4
    PARAM = 5


class Operation(IntEnum):
    """What an instruction does to memory; NONE at probes that are not at a memory operation."""

    NONE = 0
    LOAD = 1
    STORE = 2
    ATOMIC = 3
    ASYNC_COPY = 4


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the context: where it lies, and who knows it.

    `injected` fields come with each injected copy as an argument of the program's function, in the order of the table;
    the others are read on the device by the program itself.
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
    Field("site", 20, 4, injected=True),  # number of the place within the traced cell
    Field("kernel", 24, 4, injected=True),  # number of the kernel within the traced cell
    Field("active", 28, 4, injected=False),  # mask of the warp's lanes that are at the probe
    Field("launch", 32, 8, injected=False),  # the launch's number on the device (%gridid)
)
"""Fields of `struct gpu_ctx` in bpf/gpu/accel_gpu.h. Programs may only read it, each field whole."""

SIZE: Final = 40
"""Bytes of the struct."""

PARAMETERS: Final = tuple((field.name, field.size) for field in FIELDS if field.injected)
"""Parameters of a compiled probe, in order, with their bytes."""
