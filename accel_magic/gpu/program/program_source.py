"""One tool or file of a GPU trace: its GPU and CPU programs, with verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.errors import ProgramError
    from accel_magic.gpu.program.object_model import BpfObject, EbpfProgram, MapSpec, Per
    from accel_magic.gpu.program.sections import Attach
    from accel_magic.gpu.program.verdict import Verdict


@dataclass(frozen=True)
class GpuProgram:
    """A GPU program: its attach points, how often it runs, and the verifier's verdict."""

    program: EbpfProgram
    attach: Attach
    per: Per
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class LiveColumns:
    """A small array of a tool, and the columns of its values whose sums the live row shows."""

    map: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class GpuSource:
    """One tool or file.

    Attributes:
        name: The tool's name, or the file's.
        object: The loaded object; its maps are those on the GPU.
        gpu: Its GPU programs.
        cpu: Its CPU programs.
        kernel_maps: Maps that only the kernel has.
        refused: Errors of CPU programs whose maps cannot be used, by the program's name.
        filled: What its maps hold at first, by map: key -> value.
        settings: What the user set in it: a description by the name of the setting.
        live: What the live row shows of it, beside the records of its rings.

    """

    name: str
    object: BpfObject
    gpu: tuple[GpuProgram, ...]
    cpu: tuple[EbpfProgram, ...]
    kernel_maps: tuple[MapSpec, ...] = ()
    refused: Mapping[str, ProgramError] = field(default_factory=dict)
    filled: Mapping[str, Mapping[bytes, bytes]] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    live: LiveColumns | None = None
