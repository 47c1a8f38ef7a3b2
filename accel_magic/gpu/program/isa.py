"""The eBPF instruction set of RFC 9669 (ISA version 4): instructions, their encoding, and opcodes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

STACK_SIZE: Final = 512
"""Bytes of stack of one function."""
SLOT: Final = 8
"""Bytes of one instruction slot; a wide instruction takes two."""

# The lowest three bits of an opcode.
LD: Final = 0x00
LDX: Final = 0x01
ST: Final = 0x02
STX: Final = 0x03
ALU: Final = 0x04
JMP: Final = 0x05
JMP32: Final = 0x06
ALU64: Final = 0x07

# Loads and stores: bits 3-4 are the size, bits 5-7 the mode.
SIZES: Final = {0x00: 4, 0x08: 2, 0x10: 1, 0x18: 8}
"""Bytes of each size code."""
MODE_MEM: Final = 0x60
MODE_MEMSX: Final = 0x80
MODE_ATOMIC: Final = 0xC0

SOURCE_X: Final = 0x08
"""The second operand is a register, not the immediate."""
LD_IMM64: Final = 0x18
CALL: Final = 0x85
CALLX: Final = 0x8D
EXIT: Final = 0x95
JA: Final = 0x05
JA32: Final = 0x06
"""`gotol`: its distance is the immediate."""

FETCH: Final = 0x01
XCHG: Final = 0xE1
CMPXCHG: Final = 0xF1
"""Immediates of atomics; add, or, and, xor have the numbers of `Alu`, plus FETCH to return the old value."""

CALL_HELPER: Final = 0
CALL_LOCAL: Final = 1
"""Source register of a call: the kind of callee."""


class Alu(IntEnum):
    """Arithmetic, bits 4-7 of an opcode of class ALU or ALU64."""

    ADD = 0x00
    SUB = 0x10
    MUL = 0x20
    DIV = 0x30
    OR = 0x40
    AND = 0x50
    LSH = 0x60
    RSH = 0x70
    NEG = 0x80
    MOD = 0x90
    XOR = 0xA0
    MOV = 0xB0
    ARSH = 0xC0
    END = 0xD0


class Jump(IntEnum):
    """Conditions, bits 4-7 of an opcode of class JMP or JMP32."""

    JA = 0x00
    JEQ = 0x10
    JGT = 0x20
    JGE = 0x30
    JSET = 0x40
    JNE = 0x50
    JSGT = 0x60
    JSGE = 0x70
    CALL = 0x80
    EXIT = 0x90
    JLT = 0xA0
    JLE = 0xB0
    JSLT = 0xC0
    JSLE = 0xD0


@dataclass(frozen=True, slots=True)
class MapReference:
    """A wide load of a map's handle."""

    map: str


@dataclass(frozen=True, slots=True)
class DataReference:
    """A wide load of an address within a map's first value: a global variable."""

    map: str
    offset: int


@dataclass(frozen=True, slots=True)
class EbpfInstruction:
    """One instruction.

    Attributes:
        opcode: 0 to 255.
        dst: Destination register, 0 to 10.
        src: Source register, or the kind of a call or wide load.
        offset: Signed 16 bits: displacement, jump distance in slots, or a variant (signed division, sign extension).
        imm: Signed 32 bits; in a wide load all 64 bits, unsigned; in a local call the index in `Program.functions`.
        reference: The map or variable that a wide load refers to; None for a number.

    """

    opcode: int
    dst: int = 0
    src: int = 0
    offset: int = 0
    imm: int = 0
    reference: MapReference | DataReference | None = None

    @property
    def kind(self) -> int:
        """Instruction class: LD, LDX, ST, STX, ALU, JMP, JMP32 or ALU64."""
        return self.opcode & 0x07

    @property
    def wide(self) -> bool:
        """Whether it takes two slots."""
        return self.opcode == LD_IMM64

    @property
    def size(self) -> int:
        """Bytes that a load, store or atomic accesses."""
        return SIZES[self.opcode & 0x18]

    @property
    def mode(self) -> int:
        """MODE_... of a load, store or atomic."""
        return self.opcode & 0xE0

    @property
    def operation(self) -> int:
        """Bits 4-7: an `Alu` or a `Jump`."""
        return self.opcode & 0xF0

    @property
    def from_register(self) -> bool:
        """Whether the second operand of arithmetic or of a jump is a register."""
        return bool(self.opcode & SOURCE_X)

    @property
    def distance(self) -> int:
        """Slots from the next instruction to a jump's target."""
        return self.imm if self.opcode == JA32 else self.offset


Code = tuple[EbpfInstruction | None, ...]
"""Instructions by slot; None is the second slot of a wide one."""


def decode(data: bytes) -> Code:
    """Decode bytecode, without references.

    Raises:
        ValueError: Its size is not a multiple of 8 bytes, or it ends within a wide instruction.

    """
    if len(data) % SLOT:
        message = f"{len(data)} bytes are not a whole number of 8-byte instructions"
        raise ValueError(message)
    code: list[EbpfInstruction | None] = []
    at = 0
    while at < len(data):
        opcode, registers, offset, imm = struct.unpack_from("<BBhi", data, at)
        at += SLOT
        if opcode != LD_IMM64:
            code.append(EbpfInstruction(opcode, registers & 15, registers >> 4, offset, imm))
            continue
        if at >= len(data):
            message = "the last instruction is the first half of a wide one"
            raise ValueError(message)
        (high,) = struct.unpack_from("<I", data, at + 4)
        at += SLOT
        code += [EbpfInstruction(opcode, registers & 15, registers >> 4, offset, (imm & 0xFFFFFFFF) | high << 32), None]
    return tuple(code)


def encode(code: Iterable[EbpfInstruction | None]) -> bytes:
    """Encode instructions, the inverse of `decode`; references are written as zero."""
    parts = []
    for instruction in code:
        if instruction is None:
            continue
        registers = instruction.dst | instruction.src << 4
        imm = 0 if instruction.reference is not None else instruction.imm
        low = (imm & 0xFFFFFFFF) - ((imm & 0x80000000) << 1)
        parts.append(struct.pack("<BBhi", instruction.opcode, registers, instruction.offset, low))
        if instruction.wide:
            parts.append(struct.pack("<BBhI", 0, 0, 0, imm >> 32))
    return b"".join(parts)
