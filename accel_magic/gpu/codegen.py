"""LLVM IR of programs to PTX functions for NVIDIA GPUs."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu import llvm
from accel_magic.gpu.lowering import Target
from accel_magic.gpu.ptx.probe import ProbeCode

if TYPE_CHECKING:
    from collections.abc import Mapping

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
"""The lowest PTX ISA version (63 is 6.3) that knows each architecture: PTX ISA manual, release notes."""
_LEVEL: Final = 3
_ARCH: Final = re.compile(r"sm_(\d+)[af]?")
_PROBE: Final = re.compile(r'^define void @"?(accel_\w+)"?\(', re.MULTILINE)


def to_ptx(ir: str, arch: str = "sm_90") -> ProbeCode:
    """Compile a program to a PTX function.

    Args:
        ir: What `lowering.lower` gave for `Target.NVPTX`.
        arch: Of the kernel that the function is for: "sm_75" and up; the features of "sm_90a" are not used.

    Returns:
        `accel_<program>` with everything that it uses, in a module of the lowest PTX version that the architecture has.

    Raises:
        MachineError: llvmlite is missing.
        ProgramError: The architecture is not supported, or the program uses what there is not.

    """
    name = _probe_of(ir)
    machine = _nvptx(_base(arch))
    module = llvm.parse(ir)
    llvm.link(module, llvm.helpers("nvptx64"), machine, keep={name})
    llvm.optimise(module, machine, _LEVEL)
    llvm.require_complete(module, "an NVIDIA GPU")
    return ProbeCode(name, str(machine.emit_assembly(module)))


def _probe_of(ir: str) -> str:
    found = _PROBE.search(ir)
    if found is None:
        raise ProgramError(
            "this LLVM IR defines no probe",
            fix="compile what accel_magic.gpu.lowering.lower returns",
            code="gpu.no-probe-in-ir",
        )
    return found[1]


def _base(arch: str) -> int:
    """Return the newest architecture of PTX_VERSIONS that the given one can run: PTX is upward compatible."""
    found = _ARCH.fullmatch(arch)
    known = [one for one in PTX_VERSIONS if found and one <= int(found[1])]
    if not known:
        raise ProgramError(
            f"programs cannot be compiled for `{arch}`",
            why="they are compiled for NVIDIA GPUs of compute capability 7.5 or newer",
            fix='name the architecture like "sm_80"',
            code="gpu.unsupported-architecture",
        )
    return max(known)


@cache
def _nvptx(architecture: int) -> Any:
    target = llvm.binding().Target.from_triple(Target.NVPTX.value.triple)
    return target.create_target_machine(
        cpu=f"sm_{architecture}", features=f"+ptx{PTX_VERSIONS[architecture]}", opt=_LEVEL
    )
