"""One tool or file of a GPU trace: its programs for the GPU and the CPU, with their verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.errors import ProgramError
    from accel_magic.gpu.program.model import BpfObject, MapSpec, Per, Program
    from accel_magic.gpu.program.sections import Attach
    from accel_magic.gpu.program.verdict import Verdict


@dataclass(frozen=True)
class GpuProgram:
    """A program for the GPU: where it goes, how often it runs, and what the verifier found."""

    program: Program
    attach: Attach
    per: Per
    verdict: Verdict


@dataclass(frozen=True)
class Source:
    """One tool or file.

    Attributes:
        name: The tool's name, or the file's.
        object: All of it; its maps are those that a GPU sees.
        gpu: Its programs for the GPU.
        cpu: Its programs for the CPU.
        kernel_maps: Maps that are the kernel's alone.
        refused: Programs for the CPU that cannot run beside those for the GPU, and why, by name.

    """

    name: str
    object: BpfObject
    gpu: tuple[GpuProgram, ...]
    cpu: tuple[Program, ...]
    kernel_maps: tuple[MapSpec, ...] = ()
    refused: Mapping[str, ProgramError] = field(default_factory=dict)
