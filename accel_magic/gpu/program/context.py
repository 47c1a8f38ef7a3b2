"""The context of a GPU program: the struct that its first argument points to."""

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


class ValueType(IntEnum):
    """How a load or store interprets a value, as far as the instruction says."""

    BITS = 0
    UNSIGNED = 1
    SIGNED = 2
    FLOAT = 3


COMPONENTS: Final = 8
"""Maximum number of components of a vector."""


@dataclass(frozen=True, slots=True)
class ContextField:
    """One field of the context: its position, and the origin of its value.

    `injected` fields are arguments of the program's function at each injected copy, in the order of the table; the
    program itself reads the others on the device.
    """

    name: str
    offset: int
    size: int
    injected: bool


FIELDS: Final = (
    ContextField("address", 0, 8, injected=True),  # of the access, in the window of its space (generic for GENERIC)
    ContextField("size", 8, 4, injected=True),  # bytes that one lane accesses
    ContextField("space", 12, 4, injected=True),  # Space
    ContextField("operation", 16, 4, injected=True),  # Operation
    ContextField("site", 20, 4, injected=True),  # number of the site within the traced cell
    ContextField("kernel", 24, 4, injected=True),  # number of the kernel within the traced cell
    ContextField("active", 28, 4, injected=False),  # mask of the warp's lanes that are at the probe
    ContextField("launch", 32, 8, injected=False),  # the launch's number on the device (%gridid)
    *(
        ContextField(f"value{at}", 40 + 8 * at, 8, injected=True) for at in range(COMPONENTS)
    ),  # of a load or store, zero-extended
    ContextField("values", 104, 4, injected=True),  # number of components; 0: unknown
    ContextField("width", 108, 4, injected=True),  # bytes of a component
    ContextField("type", 112, 4, injected=True),  # Type
    ContextField("mask", 116, 4, injected=True),  # lanes that a synchronizing instruction of a warp names
)
"""Fields of `struct gpu_ctx` in bpf/gpu/accel_gpu.h; read-only. Each field must be read with its own size."""

SIZE: Final = 120
"""Bytes of the struct."""

PARAMETERS: Final = tuple((field.name, field.size) for field in FIELDS if field.injected)
"""(name, bytes) of the parameters of a compiled probe, in order."""

BLOCK_FIELDS: Final = (
    ContextField("block", 0, 8, injected=True),  # row-major over the grid
    ContextField("time_ns", 8, 8, injected=True),  # the device's clock (%globaltimer)
    ContextField("launch", 16, 8, injected=True),  # as in FIELDS
    ContextField("worker", 24, 4, injected=True),  # the slot that runs blocks one after the other
    ContextField("kernel", 28, 4, injected=True),  # as in FIELDS
    ContextField("site", 32, 4, injected=True),  # as in FIELDS
    ContextField("executed", 36, 4, injected=True),  # blocks of the launch that the worker has finished
    ContextField("stolen", 40, 4, injected=True),  # how many of the blocks that it has begun were others'
    ContextField("left", 44, 4, injected=True),  # blocks of the launch that have not begun
    ContextField("victim", 48, 4, injected=True),  # the worker to take from; only at should_try_steal
    ContextField("victim_left", 52, 4, injected=True),  # how many of its blocks have not begun
)
"""Fields of `struct gpu_block_ctx`, the context of programs that run once for each block; otherwise as FIELDS."""


@dataclass(frozen=True, slots=True)
class Struct:
    """A context.

    Attributes:
        name: The struct in bpf/gpu/accel_gpu.h.
        fields: Its fields.
        size: Its bytes.

    """

    name: str
    fields: tuple[ContextField, ...]
    size: int

    def field(self, offset: int) -> ContextField:
        """Return the field at an offset within the struct, which has no padding."""
        return next(field for field in self.fields if field.offset <= offset < field.offset + field.size)

    @property
    def parameters(self) -> tuple[tuple[str, int], ...]:
        """(name, bytes) of the parameters of a compiled program, in order."""
        return tuple((field.name, field.size) for field in self.fields if field.injected)


PROBE: Final = Struct("gpu_ctx", FIELDS, SIZE)
BLOCK: Final = Struct("gpu_block_ctx", BLOCK_FIELDS, 56)
RESULT: Final = "result"
"""Last parameter of a compiled program for blocks: the address of 4 bytes for its return value."""
