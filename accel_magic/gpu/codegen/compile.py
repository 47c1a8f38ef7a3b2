"""Compilation of programs from LLVM IR to PTX functions for NVIDIA GPUs."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.codegen import bitcode
from accel_magic.gpu.codegen.lowering import BackendTarget, lower
from accel_magic.gpu.inject.template import ProbeCode
from accel_magic.gpu.maps import map_layout
from accel_magic.ptx import llvm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accel_magic.gpu.maps.map_layout import Placement
    from accel_magic.gpu.program.program_source import GpuProgram, GpuSource
    from accel_magic.gpu.program.sections import Attach


PTX_VERSIONS: Final[Mapping[int, int]] = {
    75: 63,
    80: 70,
    86: 71,
    87: 74,
    89: 78,
    90: 78,
    100: 86,
    120: 87,
}
"""The lowest PTX ISA version (63 is 6.3) that supports each architecture: PTX ISA manual, release notes."""
_LEVEL: Final = 3
_ARCH: Final = re.compile(r"sm_(\d+)[af]?")
_PROBE: Final = re.compile(r'^define (?:ptx_kernel )?void @"?(accel_\w+)"?\(', re.MULTILINE)


def to_ptx(ir: str, arch: str = "sm_90") -> ProbeCode:
    """Compile a program to a PTX function.

    Args:
        ir: LLVM IR from `lowering.lower` for `Target.NVPTX`.
        arch: Architecture of the kernel: "sm_75" or newer; the features specific to "sm_90a" are not used.

    Returns:
        `accel_<program>`, a function or for whole blocks a kernel, with everything that it uses, in a module of the
        lowest PTX version that supports the architecture.

    Raises:
        MachineError: llvmlite is missing.
        ProgramError: The architecture is not supported, or the program uses a helper that NVIDIA GPUs do not have.

    """
    name = _probe_of(ir)
    machine = _nvptx(_base(arch))
    module = llvm.parse(ir)
    bitcode.link(module, [bitcode.helpers("nvptx64")], machine, keep={name})
    bitcode.optimise(module, machine, _LEVEL)
    bitcode.require_complete(module, "an NVIDIA GPU")
    return ProbeCode(name, str(machine.emit_assembly(module)))


def _probe_of(ir: str) -> str:
    found = _PROBE.search(ir)
    if found is None:
        raise ProgramError(
            "this LLVM IR defines no probe",
            fix="pass the IR that accel_magic.gpu.codegen.lowering.lower returns",
            code="gpu.no-probe-in-ir",
        )
    return found[1]


def _base(arch: str) -> int:
    """Return the newest architecture in PTX_VERSIONS that the given one can run: PTX is upward compatible."""
    found = _ARCH.fullmatch(arch)
    known = [one for one in PTX_VERSIONS if found and one <= int(found[1])]
    if not known:
        raise ProgramError(
            f"programs cannot be compiled for `{arch}`",
            why="programs need an NVIDIA GPU of compute capability 7.5 or newer",
            fix='pass a supported architecture, e.g. "sm_80"',
            code="gpu.unsupported-architecture",
        )
    return max(known)


@cache
def _nvptx(architecture: int) -> Any:
    target = llvm.binding().Target.from_triple(BackendTarget.NVPTX.value.triple)
    return target.create_target_machine(
        cpu=f"sm_{architecture}", features=f"+ptx{PTX_VERSIONS[architecture]}", opt=_LEVEL
    )


_SHOWN_THREADS: Final = 1024
_SHOWN_BASES: Final = (0x7000_0000_0000, 0x7800_0000_0000)


def compile_probes(sources: Sequence[tuple[GpuSource, Placement]], arch: str) -> tuple[tuple[Attach, ProbeCode], ...]:
    """Compile all GPU programs of some sources.

    Args:
        sources: Each source with the placement of its maps.
        arch: E.g. `sm_80`.

    """
    return tuple(
        (each.attach, to_ptx(_ir(source, each, placement), arch))
        for source, placement in sources
        for each in source.gpu
    )


def code_of(sources: Sequence[GpuSource], arch: str) -> dict[str, tuple[str, str]]:
    """Compile programs for display: LLVM IR and PTX by program, with placeholder addresses for the maps."""
    found = {}
    for source in sources:
        plan = map_layout.plan_memory(source.object.maps, _SHOWN_THREADS, limit=1 << 40)
        placement = map_layout.placement(plan, *_SHOWN_BASES)
        for each in source.gpu:
            ir = _ir(source, each, placement)
            found[each.program.name] = (ir, to_ptx(ir, arch).text)
    return found


def _ir(source: GpuSource, each: GpuProgram, placement: Placement) -> str:
    return lower(
        each.program,
        source.object.maps,
        placement,
        target=BackendTarget.NVPTX,
        per=each.per,
        promoted=each.verdict.promoted,
        pointers=each.verdict.pointers,
    )
