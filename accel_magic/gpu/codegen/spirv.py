"""Compilation of programs from LLVM IR to SPIR-V functions for OpenCL devices."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any, Final

from accel_magic import own_python
from accel_magic.errors import ProgramError
from accel_magic.gpu.codegen import bitcode
from accel_magic.gpu.codegen.lowering import BackendTarget, lower
from accel_magic.gpu.codegen.lowering.module import probe_name
from accel_magic.gpu.inject.spirv.spirv_probes import SpirvProbes
from accel_magic.ptx import llvm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel_magic.gpu.maps.map_layout import Placement
    from accel_magic.gpu.program.program_source import GpuProgram, GpuSource

_LEVEL: Final = 3
_TIMEOUT_S: Final = 120.0
_BUILT_IN: Final = ("accel_spirv_", "_Z")
"""Beginnings of the names of functions that the device has, or that the merge writes."""


def compile_spirv(sources: Sequence[tuple[GpuSource, Placement]]) -> SpirvProbes:
    """Compile all GPU programs of some sources.

    Args:
        sources: Each source with the placement of its maps.

    Raises:
        MachineError: llvmlite is missing.
        ProgramError: A program uses a helper that OpenCL devices do not have.

    """
    whole: Any = None
    functions, launch_words = [], dict[int, None]()
    for source, placement in sources:
        for each in source.gpu:
            module = _optimised(source, each, placement)
            functions.append((each.attach, probe_name(each.program.name)))
            if f"i64 {placement.launch} to" in str(module):  # what remains of it after optimisation
                launch_words[placement.launch] = None
            if whole is None:
                whole = module
            else:
                whole.link_in(module)
    code = emit(bytes(whole.as_bitcode()), BackendTarget.SPIRV.value.triple)
    return SpirvProbes(tuple(functions), code, tuple(launch_words))


def emit(code: bytes, triple: str) -> bytes:
    """Translate bitcode to SPIR-V, in a process of its own.

    Args:
        code: LLVM bitcode.
        triple: The target with the version of SPIR-V: "spirv64v1.2-unknown-unknown".

    Raises:
        ProgramError: LLVM cannot.

    """
    command = [*own_python.command("accel_magic.gpu.codegen.spirv_emitter"), triple]
    try:
        done = subprocess.run(command, input=code, capture_output=True, check=False, timeout=_TIMEOUT_S)
        why = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    except subprocess.TimeoutExpired:
        done, why = None, [f"it took more than {_TIMEOUT_S:.0f} s"]
    if done is None or done.returncode or not done.stdout:
        raise ProgramError(
            "LLVM cannot translate the program to SPIR-V",
            why="".join(why) or "its process ended",
            fix="please report it with the program",
            code="gpu.spirv.translation-defect",
        )
    return done.stdout


def _optimised(source: GpuSource, each: GpuProgram, placement: Placement) -> Any:
    """A program as an LLVM module that exports the function to insert."""
    machine = llvm.binding().Target.from_triple(BackendTarget.SPIRV.value.triple).create_target_machine(opt=_LEVEL)
    text = lower(
        each.program,
        source.object.maps,
        placement,
        target=BackendTarget.SPIRV,
        per=each.per,
        promoted=each.verdict.promoted,
        pointers=each.verdict.pointers,
    )
    module = llvm.parse(text)
    bitcode.link(module, [bitcode.helpers("spirv64")], machine, keep={probe_name(each.program.name)})
    bitcode.optimise(module, machine, _LEVEL)
    bitcode.require_complete(module, "an OpenCL device", built_in=_BUILT_IN)
    return module
