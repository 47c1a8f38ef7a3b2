"""From a program of an object to what this kernel loads: its functions in a row, its maps by their descriptors."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu import isa
from accel_magic.gpu.helpers import HELPERS
from accel_magic.gpu.host_programs.kernel_types import adapted, kernel_types
from accel_magic.gpu.isa import DataReference, MapReference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.gpu.isa import Instruction
    from accel_magic.gpu.model import Program, SourceLine

_MAP, _MAP_VALUE = 1, 2
"""What the source register of a wide load says that its immediate is: BPF_PSEUDO_MAP_FD, BPF_PSEUDO_MAP_VALUE."""
_FIRST_OF_GPU: Final = 500
_INSTRUCTION = re.compile(r"^(\d+): ", re.MULTILINE)
_ACCESS = re.compile(r"\binsn (\d+)\b")


def bytecode(program: Program, descriptors: Mapping[str, int]) -> bytes:
    """Put a program together for the kernel.

    Args:
        program: For the CPU.
        descriptors: Of the maps that it refers to, by their names in the object.

    Raises:
        ProgramError: It refers to what its object does not define, calls a helper of the GPU, or asks for a type that
            this kernel has not.
        MachineError: It asks for types, and the kernel does not describe them.

    """
    starts = _starts(program)
    code: list[Instruction | None] = []
    for start, function in zip(starts, program.functions, strict=True):
        if function.missing:
            raise _error(
                program,
                function.missing[0],
                "keep to helpers, maps and variables of the same file",
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


def line_of(program: Program, log: str) -> SourceLine | None:
    """Find the line of the last instruction that a log of the kernel's verifier names."""
    named = _INSTRUCTION.findall(log) or _ACCESS.findall(log)
    if not named:
        return None
    number = int(named[-1])
    for start, function in zip(_starts(program), program.functions, strict=True):
        if start <= number < start + len(function.code):
            return function.lines[number - start]
    return None


def _starts(program: Program) -> list[int]:
    """Slots at which the functions begin, one behind the other."""
    starts, at = [], 0
    for function in program.functions:
        starts.append(at)
        at += len(function.code)
    return starts


def _referring(instruction: Instruction, descriptors: Mapping[str, int]) -> Instruction:
    """Put a map's descriptor into the wide load that refers to it."""
    found = instruction.reference
    if isinstance(found, MapReference):
        return replace(instruction, src=_MAP, imm=descriptors[found.map], reference=None)
    if isinstance(found, DataReference):
        place = descriptors[found.map] | found.offset << 32
        return replace(instruction, src=_MAP_VALUE, imm=place, reference=None)
    return instruction


def _need_helper(program: Program, instruction: Instruction, line: SourceLine | None) -> None:
    """Refuse a call of what only a GPU has."""
    if instruction.opcode == isa.CALL and instruction.imm >= _FIRST_OF_GPU and instruction.imm in HELPERS:
        where = f" (line {line.line}: `{line.text.strip()}`)" if line else ""
        raise _error(
            program,
            f"it calls {HELPERS[instruction.imm].name}{where}, which only a GPU has",
            "call it in a program for the GPU, and pass what it gives through a shared array",
            code="gpu.helper-of-gpu",
        )


def _error(program: Program, why: str, fix: str, *, code: str) -> ProgramError:
    return ProgramError(
        f"{program.name} ({program.section}) cannot be loaded into the kernel", why=why, fix=fix, code=code
    )
