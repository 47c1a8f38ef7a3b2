"""Plug-in for the bpf_conformance suite: `python -m tests.support.conformance [MEMORY] [--debug] [--elf]`.

The program is given as hex bytes on standard input (or with --program), the memory as hex bytes in the first argument;
r1 is the memory's address and r2 its size. The program is compiled for this CPU by the same translation as GPU code; r0
is printed in hex. Errors go to standard error, with exit status 1.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING

from accel_magic import elf
from accel_magic.errors import AccelMagicError, ProgramError
from accel_magic.gpu.program import isa
from accel_magic.gpu.program.object_model import EbpfFunction, EbpfProgram
from tests.support.host_device import compile_programs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accel_magic.gpu.program.isa import Code, EbpfInstruction


def program_of(code: bytes, name: str = "program") -> EbpfProgram:
    """Split bytecode in the kernel's format into functions, which start at the targets of local calls.

    Args:
        code: Instructions; calls are relative to their place.
        name: Name of the program.

    Returns:
        The program; its first function starts at the first instruction.

    Raises:
        ProgramError: The bytecode has incomplete instructions, or a call that leaves the code.

    """
    try:
        decoded = isa.decode(code)
    except ValueError as error:
        raise ProgramError(
            f"this is not an eBPF program: {error}", fix="give whole 8-byte instructions", code="conformance.not-ebpf"
        ) from None
    targets = {slot + 1 + one.imm for slot, one in enumerate(decoded) if one is not None and _is_local_call(one)}
    outside = [target for target in targets if not 0 <= target < len(decoded) or decoded[target] is None]
    if outside:
        raise ProgramError(
            f"a local call goes to slot {outside[0]}, which is not an instruction",
            fix="make calls go to whole instructions",
            code="conformance.bad-call",
        )
    starts = sorted({0} | targets)
    places = {start: place for place, start in enumerate(starts)}
    ends = [*starts[1:], len(decoded)]
    functions = [
        EbpfFunction(f"function_{place}", _relocated(decoded, start, end, places), (None,) * (end - start))
        for place, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
    return EbpfProgram(name, "", tuple(functions))


def _is_local_call(instruction: EbpfInstruction) -> bool:
    return instruction.opcode == isa.CALL and instruction.src == isa.CALL_LOCAL


def _relocated(code: Code, start: int, end: int, places: Mapping[int, int]) -> Code:
    """Instructions of one function, with calls converted to function indices."""
    return tuple(
        replace(one, imm=places[slot + 1 + one.imm]) if one is not None and _is_local_call(one) else one
        for slot, one in enumerate(code[start:end], start)
    )


def code_of_elf(data: bytes) -> bytes:
    """Return the first section with instructions of an ELF object.

    Raises:
        ProgramError: It is not an ELF object, or has no instructions.

    """
    try:
        file = elf.read(BytesIO(data))
        for section in file.sections:
            if section.flags & elf.EXECUTABLE and section.size:
                return file.data(section)
    except elf.ElfError as error:
        raise ProgramError(
            f"this is not an ELF object: {error}", fix="remove --elf for plain bytecode", code="conformance.not-elf"
        ) from None
    raise ProgramError(
        "this ELF object has no section with instructions",
        fix="give an object with a program",
        code="conformance.no-program",
    )


def run(code: bytes, memory: bytes = b"") -> int:
    """Run bytecode on this CPU.

    Args:
        code: Instructions.
        memory: Memory that r1 points to at the start; r2 is its size.

    Returns:
        r0, 64 bits, unsigned.

    Raises:
        ProgramError: The code is not a valid program.
        MachineError: llvmlite is missing.

    """
    return compile_programs([program_of(code)], probes=False).programs[0].run(bytearray(memory))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the plug-in; returns the exit status."""
    parser = argparse.ArgumentParser(prog="tests.support.conformance", description="Run one eBPF program.")
    parser.add_argument("memory", nargs="?", default="", help="hex bytes that r1 points to")
    parser.add_argument("--program", help="hex bytes of the program; else read from standard input")
    parser.add_argument("--elf", action="store_true", help="the program is an ELF object")
    parser.add_argument("--debug", action="store_true", help="print the program's instructions to standard error")
    options = parser.parse_args(arguments)
    try:
        text = sys.stdin.read() if options.program is None else options.program
        code = _bytes_of(text, "program")
        code = code_of_elf(code) if options.elf else code
        if options.debug:
            _list(program_of(code))
        result = run(code, _bytes_of(options.memory, "memory"))
    except AccelMagicError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{result:x}")
    return 0


def _bytes_of(text: str, what: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise ProgramError(
            f"the {what} is not a list of hex bytes: {error}",
            fix='give bytes like "95 00 0f"',
            code="conformance.not-hex",
        ) from None


def _list(program: EbpfProgram) -> None:
    for function in program.functions:
        print(f"{function.name}:", file=sys.stderr)
        for slot, one in enumerate(function.code):
            if one is not None:
                print(f"  {slot:4}: {one}", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())
