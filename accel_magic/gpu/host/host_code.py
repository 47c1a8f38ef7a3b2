"""From a program of an object to bytecode that this kernel loads, with map descriptors and relocated types."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.errors import MachineError, ProgramError
from accel_magic.gpu.program import isa
from accel_magic.gpu.program.helpers import HELPERS
from accel_magic.gpu.program.isa import DataReference, MapReference
from accel_magic.gpu.program.kernel_types import KernelTypes, adapted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.object_model import EbpfProgram
    from accel_magic.ptx.ptx_model import SourceLine


_MAP, _MAP_VALUE = 1, 2
"""The source register of a wide load, by what the immediate is: BPF_PSEUDO_MAP_FD, BPF_PSEUDO_MAP_VALUE."""
_FIRST_OF_GPU: Final = 500
_INSTRUCTION = re.compile(r"^(\d+): ", re.MULTILINE)
_ACCESS = re.compile(r"\binsn (\d+)\b")


def bytecode(program: EbpfProgram, descriptors: Mapping[str, int]) -> bytes:
    """Assemble a program's bytecode for the kernel.

    Args:
        program: A CPU program.
        descriptors: Of the maps that it uses, by their names in the object.

    Raises:
        ProgramError: It refers to something that its object does not define, calls a GPU helper, or needs a type that
            this kernel does not have.
        MachineError: It needs types, and the kernel has no readable BTF.

    """
    starts = _starts(program)
    code: list[EbpfInstruction | None] = []
    for start, function in zip(starts, program.functions, strict=True):
        if function.missing:
            raise _error(
                program,
                function.missing[0],
                "use only helpers, and functions, maps and variables of the same file",
                code="gpu.unresolved-reference",
            )
        fields = dict(function.kernel_fields)
        for slot, instruction in enumerate(function.code):
            if instruction is None:
                code.append(None)
            elif slot in fields:
                code.append(adapted(instruction, kernel_types().answer(fields[slot])))
            elif instruction.opcode == isa.CALL and instruction.src == isa.CALL_LOCAL:
                code.append(replace(instruction, imm=starts[instruction.imm] - (start + slot + 1)))
            else:
                _need_helper(program, instruction, function.lines[slot])
                code.append(_referring(instruction, descriptors))
    return isa.encode(code)


def line_of(program: EbpfProgram, log: str) -> SourceLine | None:
    """Find the line of the last instruction that a log of the kernel's verifier names."""
    named = _INSTRUCTION.findall(log) or _ACCESS.findall(log)
    if not named:
        return None
    number = int(named[-1])
    for start, function in zip(_starts(program), program.functions, strict=True):
        if start <= number < start + len(function.code):
            return function.lines[number - start]
    return None


def _starts(program: EbpfProgram) -> list[int]:
    """Slot at which each function begins."""
    starts, at = [], 0
    for function in program.functions:
        starts.append(at)
        at += len(function.code)
    return starts


def _referring(instruction: EbpfInstruction, descriptors: Mapping[str, int]) -> EbpfInstruction:
    """Set the descriptor in a wide load that refers to a map."""
    found = instruction.reference
    if isinstance(found, MapReference):
        return replace(instruction, src=_MAP, imm=descriptors[found.map], reference=None)
    if isinstance(found, DataReference):
        place = descriptors[found.map] | found.offset << 32
        return replace(instruction, src=_MAP_VALUE, imm=place, reference=None)
    return instruction


def _need_helper(program: EbpfProgram, instruction: EbpfInstruction, line: SourceLine | None) -> None:
    """Reject a call of a GPU helper."""
    if instruction.opcode == isa.CALL and instruction.imm >= _FIRST_OF_GPU and instruction.imm in HELPERS:
        where = f" (line {line.line}: `{line.text.strip()}`)" if line else ""
        raise _error(
            program,
            f"it calls {HELPERS[instruction.imm].name}{where}, which only GPUs have",
            "call it in a GPU program, and pass its result through a shared array",
            code="gpu.helper-of-gpu",
        )


def _error(program: EbpfProgram, why: str, fix: str, *, code: str) -> ProgramError:
    return ProgramError(
        f"{program.name} ({program.section}) cannot be loaded into the kernel", why=why, fix=fix, code=code
    )


BTF: Final = Path("/sys/kernel/btf/vmlinux")


@lru_cache(maxsize=1)
def kernel_types() -> KernelTypes:
    """Read the running kernel's types.

    Raises:
        MachineError: Its BTF cannot be read.

    """
    try:
        return KernelTypes(BTF.read_bytes())
    except (OSError, struct.error) as error:
        raise MachineError(
            "the kernel's type information cannot be read",
            why=f"{BTF}: {error}",
            fix="use a kernel built with CONFIG_DEBUG_INFO_BTF",
            code="kernel.no-btf",
        ) from None
