"""How many warps of a kernel fit on a multiprocessor at once, in theory.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (warps, blocks, registers, shared
memory); CUDA Occupancy Calculator for units of allocation: registers by 256 for each warp, shared memory by
128 bytes (256 before 8.0) with 1 KiB that the system keeps of each block from 8.0 on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Mapping

LANES: Final = 32
_REGISTERS: Final = 65536
_REGISTER_UNIT: Final = 256
_PARTS: Final = 4
_MOST_REGISTERS: Final = 255
_MOST_THREADS: Final = 1024


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """What one multiprocessor has.

    Attributes:
        warps: Warps at once.
        blocks: Blocks at once.
        shared: Bytes of shared memory for all blocks.
        block_shared: Bytes that one block can have.
        shared_unit: Shared memory is given out in multiples of so many bytes.
        kept: Bytes that the system keeps of each block.

    """

    warps: int
    blocks: int
    shared: int
    block_shared: int
    shared_unit: int = 128
    kept: int = 1024


_KIB: Final = 1024
MULTIPROCESSORS: Final[Mapping[int, Multiprocessor]] = MappingProxyType(
    {
        75: Multiprocessor(32, 16, 64 * _KIB, 64 * _KIB, shared_unit=256, kept=0),
        80: Multiprocessor(64, 32, 164 * _KIB, 163 * _KIB),
        86: Multiprocessor(48, 16, 100 * _KIB, 99 * _KIB),
        87: Multiprocessor(48, 16, 164 * _KIB, 163 * _KIB),
        89: Multiprocessor(48, 24, 100 * _KIB, 99 * _KIB),
        90: Multiprocessor(64, 32, 228 * _KIB, 227 * _KIB),
        100: Multiprocessor(64, 32, 228 * _KIB, 227 * _KIB),
        103: Multiprocessor(64, 32, 228 * _KIB, 227 * _KIB),
        110: Multiprocessor(48, 24, 228 * _KIB, 227 * _KIB),
        120: Multiprocessor(48, 24, 100 * _KIB, 99 * _KIB),
        121: Multiprocessor(48, 24, 100 * _KIB, 99 * _KIB),
    }
)
"""By architecture: 90 for sm_90 and sm_90a."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What fits.

    Attributes:
        blocks: Blocks at once on a multiprocessor; 0 if not even one fits.
        warps: Warps at once.
        share: Of the warps that could be there, 0 to 1.
        limits: What stops one more block: "warps", "blocks", "registers", "shared memory"; several where they agree.

    """

    blocks: int
    warps: int
    share: float
    limits: tuple[str, ...]


def occupancy(arch: str, registers: int, threads: int, shared: int = 0) -> Occupancy:
    """Say how much of a multiprocessor a kernel can fill.

    Args:
        arch: `sm_90`.
        registers: For each thread.
        threads: Of a block.
        shared: Bytes of shared memory of a block, static and dynamic.

    Raises:
        ProbeError: The architecture is not known, or the block is none.

    """
    machine = multiprocessor(arch)
    if not 1 <= threads <= _MOST_THREADS:
        raise ProbeError(
            f"a block has 1 to {_MOST_THREADS} threads, not {threads}",
            fix="give the launch's block size",
            code="gpu.bad-launch-shape",
        )
    warps = -(-threads // LANES)
    fitting = {
        "warps": machine.warps // warps,
        "blocks": machine.blocks,
        "registers": _by_registers(registers, warps),
        "shared memory": _by_shared(machine, shared),
    }
    blocks = min(fitting.values())
    limits = tuple(name for name, count in fitting.items() if count == blocks)
    return Occupancy(blocks, blocks * warps, blocks * warps / machine.warps, limits)


def multiprocessor(arch: str) -> Multiprocessor:
    """Look an architecture up: `sm_90`, `sm_90a`.

    Raises:
        ProbeError: It is not known here.

    """
    match = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if match is None or int(match[1]) not in MULTIPROCESSORS:
        known = ", ".join(f"sm_{number}" for number in MULTIPROCESSORS)
        raise ProbeError(
            f"{arch} is no architecture whose multiprocessors are known here",
            fix=f"one of {known}",
            code="gpu.unsupported-architecture",
        )
    return MULTIPROCESSORS[int(match[1])]


def _by_registers(registers: int, warps: int) -> int:
    if registers > _MOST_REGISTERS:
        return 0
    each = -(-max(registers, 1) * LANES // _REGISTER_UNIT) * _REGISTER_UNIT
    # Each of a multiprocessor's four parts has its own registers, and a launch is checked as if all parts had as many
    # of the block's warps.
    if each * -(-warps // _PARTS) * _PARTS > _REGISTERS:
        return 0
    return _REGISTERS // _PARTS // each * _PARTS // warps


def _by_shared(machine: Multiprocessor, shared: int) -> int:
    if shared > machine.block_shared:
        return 0
    each = -(-(shared + machine.kept) // machine.shared_unit) * machine.shared_unit
    return machine.shared // each if each else machine.blocks
