"""Decode the first x86-64 instructions of a function, and how they run at another address.

Covers legacy, VEX and EVEX encodings. Instructions that cannot be moved (`loop`, `xbegin`, far calls), or whose length
is not known, are refused. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapter 2 and
appendix A.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

LONGEST: Final = 15
"""Bytes of the longest instruction."""
JUMP_BYTES: Final = 5
"""Size of the jump that replaces the beginning of a function: E9 and a distance of 32 bits."""

Flow = Literal["", "branch", "jump", "call", "jump_to", "call_to", "return"]
"""What follows an instruction: the next one (''), or also or only the target of a conditional branch, jump or call.

With `_to`, its target is in a register or in memory.
"""


class UnmovableError(ValueError):
    """Instructions that cannot be moved; the text says why."""


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        data: Its bytes.
        flow: What follows it.
        target: Of a branch, jump or call: distance in bytes from the instruction's end.
        relative: Position in `data` of a distance from the instruction's end to its operand in memory; 0: none.
        opcode: Position of the opcode.
        modrm: Position of the ModRM byte; 0: none.

    """

    data: bytes
    flow: Flow = ""
    target: int = 0
    relative: int = 0
    opcode: int = 0
    modrm: int = 0


def _bytes(*ranges: tuple[int, int] | int) -> frozenset[int]:
    spans = ((span, span) if isinstance(span, int) else span for span in ranges)
    return frozenset(byte for first, last in spans for byte in range(first, last + 1))


_ALU: Final = tuple(base + 8 * number for number in range(8) for base in (0, 1, 2, 3))
_PREFIXES: Final = _bytes(0x26, 0x2E, 0x36, 0x3E, (0x64, 0x67), 0xF0, 0xF2, 0xF3)
# One byte.
_UNKNOWN: Final = _bytes(0x06, 0x07, 0x0E, 0x16, 0x17, 0x1E, 0x1F, 0x27, 0x2F, 0x37, 0x3F, 0x60, 0x61, 0x82) | _bytes(
    0x9A, 0xCE, (0xD4, 0xD6), 0xEA
)
_UNMOVABLE: Final = _bytes(0xCC, 0xF4, (0xE0, 0xE3))
"""Breakpoints, halts, loops."""
_MODRM: Final = _bytes(*_ALU, 0x63, 0x69, 0x6B, (0x80, 0x8F), 0xC0, 0xC1, 0xC6, 0xC7, (0xD0, 0xD3)) | _bytes(
    (0xD8, 0xDF), 0xF6, 0xF7, 0xFE, 0xFF
)
_IMMEDIATES: Final = (
    _bytes(*range(4, 64, 8), 0x6A, 0x6B, 0x80, 0x83, 0xA8, (0xB0, 0xB7), 0xC0, 0xC1, 0xC6, 0xCD, (0xE4, 0xE7)),
    _bytes(*range(5, 64, 8), 0x68, 0x69, 0x81, 0xA9, 0xC7),
    _bytes((0xB8, 0xBF)),
    _bytes((0xA0, 0xA3)),
    _bytes(0xC8),
)
"""Opcodes with an immediate value: of 8 bits; of 32, or 16 with prefix 66; likewise or 64 with REX.W; of 64; of 24."""
_RETURNS: Final = {0xC2: 2, 0xC3: 0, 0xCA: 2, 0xCB: 0, 0xCF: 0}
"""Returns, with the size of their immediate value."""
_GROUP_3: Final = {0xF6: 1, 0xF7: 4}
"""They have an immediate value if the register in ModRM is 0 or 1."""
# Two bytes: 0F and this one.
_TWO_WITHOUT_MODRM: Final = _bytes((0x05, 0x09), 0x0B, 0x0E, (0x30, 0x37), 0x77, (0xA0, 0xA2), (0xA8, 0xAA)) | _bytes(
    (0xC8, 0xCF)
)
_TWO_IMMEDIATE_8: Final = _bytes(0x0F, 0x3A, (0x70, 0x73), 0xA4, 0xAC, 0xBA, 0xC2, (0xC4, 0xC6))
_VEX_IMMEDIATE_8: Final = _bytes((0x70, 0x73), 0xC2, (0xC4, 0xC6))


@dataclass
class _Reader:
    code: bytes
    at: int = 0

    def byte(self) -> int:
        if self.at >= min(len(self.code), LONGEST):
            raise UnmovableError("its code ends within an instruction")
        self.at += 1
        return self.code[self.at - 1]

    def skip(self, count: int) -> int:
        """Skip bytes; returns their position."""
        start, self.at = self.at, self.at + count
        if self.at > min(len(self.code), LONGEST):
            raise UnmovableError("its code ends within an instruction")
        return start

    def signed(self, size: int) -> int:
        start = self.skip(size)
        return int.from_bytes(self.code[start : start + size], "little", signed=True)


def decode(code: bytes) -> Instruction:
    """Decode the instruction at the start of `code`. Raises UnmovableError if it is not known."""
    reader = _Reader(code[:LONGEST])
    prefixes, rex = set(), 0
    byte = reader.byte()
    while byte in _PREFIXES:
        prefixes.add(byte)
        byte = reader.byte()
    if 0x40 <= byte <= 0x4F:
        rex, byte = byte, reader.byte()
    if 0x67 in prefixes:
        raise UnmovableError("an address of 32 bits")
    if byte == 0x0F:
        return _two_bytes(reader)
    if byte in (0xC4, 0xC5, 0x62):
        return _vector(reader, byte)
    return _one_byte(reader, byte, wide=bool(rex & 8), narrow=0x66 in prefixes)


def _one_byte(reader: _Reader, byte: int, *, wide: bool, narrow: bool) -> Instruction:
    opcode = reader.at - 1
    if byte in _UNKNOWN or byte in _UNMOVABLE:
        raise UnmovableError(f"instruction {byte:02x}")
    if (direct := _direct(byte)) is not None:
        flow, size = direct
        distance = reader.signed(size)
        return Instruction(reader.code[: reader.at], flow, distance, opcode=opcode)
    if byte in _RETURNS:
        reader.skip(_RETURNS[byte])
        return Instruction(reader.code[: reader.at], "return", opcode=opcode)
    flow, modrm, relative = "", 0, 0
    if byte in _MODRM:
        modrm, relative = _operand(reader)
        flow = _of_group(reader, byte, modrm, narrow=narrow)
    reader.skip(_immediate(byte, wide=wide, narrow=narrow))
    return Instruction(reader.code[: reader.at], flow, 0, relative, opcode, modrm)


def _direct(byte: int) -> tuple[Flow, int] | None:
    """What a direct branch, jump or call is, and the size of its distance."""
    if 0x70 <= byte <= 0x7F:
        return "branch", 1
    found: dict[int, tuple[Flow, int]] = {0xEB: ("jump", 1), 0xE8: ("call", 4), 0xE9: ("jump", 4)}
    return found.get(byte)


def _immediate(byte: int, *, wide: bool, narrow: bool) -> int:
    """Size of the immediate value of an opcode."""
    usual = 2 if narrow else 4
    sizes = (1, usual, 8 if wide else usual, 8, 3)
    return next((size for size, opcodes in zip(sizes, _IMMEDIATES, strict=True) if byte in opcodes), 0)


def _of_group(reader: _Reader, byte: int, modrm: int, *, narrow: bool) -> Flow:
    """What the register in ModRM makes of an opcode that several instructions share."""
    register = reader.code[modrm] >> 3 & 7
    if byte == 0xC7 and register:
        raise UnmovableError("instruction c7 with another register")  # xbegin
    if byte in _GROUP_3 and register < 2:
        reader.skip(2 if narrow and byte == 0xF7 else _GROUP_3[byte])
    return _indirect(register) if byte == 0xFF else ""


def _indirect(register: int) -> Flow:
    if register in (3, 5):
        raise UnmovableError("a far call or jump")
    return "call_to" if register == 2 else "jump_to" if register == 4 else ""


def _two_bytes(reader: _Reader) -> Instruction:
    opcode, byte = reader.at, reader.byte()
    if 0x80 <= byte <= 0x8F:
        distance = reader.signed(4)
        return Instruction(reader.code[: reader.at], "branch", distance, opcode=opcode)
    if byte in (0x38, 0x3A):
        reader.byte()
    modrm = relative = 0
    if byte not in _TWO_WITHOUT_MODRM:
        modrm, relative = _operand(reader)
    if byte in _TWO_IMMEDIATE_8:
        reader.skip(1)
    return Instruction(reader.code[: reader.at], "", 0, relative, opcode, modrm)


def _vector(reader: _Reader, byte: int) -> Instruction:
    """An instruction with a VEX (C4, C5) or EVEX (62) prefix."""
    table = 1
    if byte != 0xC5:
        table = reader.byte() & (0x1F if byte == 0xC4 else 7)
        reader.skip(1 if byte == 0xC4 else 2)
    else:
        reader.skip(1)
    opcode = reader.at
    number = reader.byte()
    if table == 1 and number == 0x77 and byte != 0x62:
        return Instruction(reader.code[: reader.at], opcode=opcode)
    modrm, relative = _operand(reader)
    if table == 3 or (table == 1 and number in _VEX_IMMEDIATE_8):
        reader.skip(1)
    return Instruction(reader.code[: reader.at], "", 0, relative, opcode, modrm)


def _operand(reader: _Reader) -> tuple[int, int]:
    """Read a ModRM byte and what belongs to it; returns its position, and that of a distance to memory, or 0."""
    at = reader.at
    modrm = reader.byte()
    mode, memory = modrm >> 6, modrm & 7
    if mode == 3:
        return at, 0
    if memory == 4:
        base = reader.byte() & 7
        if mode == 0 and base == 5:
            reader.skip(4)
    elif mode == 0 and memory == 5:
        return at, reader.skip(4)
    reader.skip((0, 1, 4)[mode])
    return at, 0


@dataclass(frozen=True)
class Fixup:
    """A value in moved code that depends on addresses: 32 bits at `at`.

    `target` is an address in the library's file. The value is the distance to it from the instruction's end (`end`),
    or, if that is 0, its address: the lower or upper half of it.
    """

    at: int
    end: int
    target: int
    upper: bool = False


@dataclass
class MovedCode:
    """The displaced instructions of a function, which continue behind them in the function.

    Attributes:
        size: Bytes that are displaced, at least 5.
        boundaries: Where instructions began within the first 5 bytes, except the first one.
        places: Where each of these is in `code`.
        code: The code, with zeros where fixups are.
        fixups: What is put there.

    """

    size: int = 0
    boundaries: tuple[int, ...] = ()
    places: tuple[int, ...] = ()
    code: bytes = b""
    fixups: list[Fixup] = field(default_factory=list)


_FINAL: Final = ("jump", "jump_to", "return")
_PADDING: Final = (b"\x90", b"\xcc", b"\x66\x90", b"\x0f\x1f", b"\x66\x0f\x1f", b"\x66\x2e", b"\x66\x66")
"""How what compilers put between functions begins."""


def displaced(code: bytes) -> list[Instruction]:
    """Decode the instructions that cover the first 5 bytes. Raises UnmovableError."""
    found: list[Instruction] = []
    size = 0
    while size < JUMP_BYTES:
        found.append(decode(code[size : size + LONGEST]))
        size += len(found[-1].data)
        if found[-1].flow in _FINAL:
            break
    if size < JUMP_BYTES and not code[size:].startswith(_PADDING):
        raise UnmovableError("it is shorter than a jump")
    return found


def move(instructions: list[Instruction], address: int) -> MovedCode:
    """Move the first instructions of a function.

    Args:
        instructions: From `displaced`.
        address: Address of the function in its file.

    Raises:
        UnmovableError: They cannot be moved.

    """
    moved, at, starts = MovedCode(), address, []
    size = sum(len(instruction.data) for instruction in instructions)
    for instruction in instructions:
        starts.append((at - address, len(moved.code)))
        at += len(instruction.data)
        _append(moved, instruction, at)
        if instruction.flow in ("branch", "jump", "call") and address < at + instruction.target < address + size:
            raise UnmovableError("it branches into its first bytes")
        if instruction.flow in ("call", "call_to") and at - address < JUMP_BYTES:
            raise UnmovableError("a call returns into its first bytes")
    if instructions[-1].flow not in (*_FINAL, "call", "call_to"):
        _jump(moved, b"\xe9", at)
    inner = [(start, place) for start, place in starts[1:] if start < JUMP_BYTES]
    moved.size = size
    moved.boundaries = tuple(start for start, _ in inner)
    moved.places = tuple(place for _, place in inner)
    return moved


def _append(moved: MovedCode, instruction: Instruction, after: int) -> None:
    """Append one instruction; `after` is the address behind it in the file."""
    data = instruction.data
    if instruction.flow == "branch":
        _jump(moved, bytes([0x0F, 0x80 | data[instruction.opcode] & 15]), after + instruction.target)
    elif instruction.flow == "jump":
        _jump(moved, b"\xe9", after + instruction.target)
    elif instruction.flow in ("call", "call_to"):
        _call(moved, instruction, after)
    else:
        _plain(moved, data, instruction.relative, after)


def _plain(moved: MovedCode, data: bytes, relative: int, after: int) -> None:
    start = len(moved.code)
    if relative:
        distance = int.from_bytes(data[relative : relative + 4], "little", signed=True)
        moved.fixups.append(Fixup(start + relative, start + len(data), after + distance))
        data = data[:relative] + bytes(4) + data[relative + 4 :]
    moved.code += data


def _jump(moved: MovedCode, opcode: bytes, target: int) -> None:
    at = len(moved.code) + len(opcode)
    moved.code += opcode + bytes(4)
    moved.fixups.append(Fixup(at, at + 4, target))


_PUSH_ANY: Final = b"\xe8\x01\x00\x00\x00\xcc"
"""Calls what follows: the return stack of the processor stays balanced."""
_STORE_LOW: Final = b"\xc7\x04\x24"
_STORE_HIGH: Final = b"\xc7\x44\x24\x04"
_RSP: Final = 4


def _call(moved: MovedCode, instruction: Instruction, after: int) -> None:
    """A call that returns to the function itself, whose unwinding tables apply there."""
    for opcode, upper in ((_PUSH_ANY + _STORE_LOW, False), (_STORE_HIGH, True)):
        at = len(moved.code) + len(opcode)
        moved.code += opcode + bytes(4)
        moved.fixups.append(Fixup(at, 0, after, upper))
    if instruction.flow == "call":
        _jump(moved, b"\xe9", after + instruction.target)
        return
    data = bytearray(instruction.data)
    if _uses_stack_pointer(instruction):
        raise UnmovableError("a call through the stack pointer")
    data[instruction.modrm] = data[instruction.modrm] & ~0x38 | 4 << 3  # as a jump
    _plain(moved, bytes(data), instruction.relative, after)


def _uses_stack_pointer(instruction: Instruction) -> bool:
    modrm = instruction.data[instruction.modrm]
    if modrm >> 6 == 3:
        return modrm & 7 == _RSP
    return modrm & 7 == 4 and instruction.data[instruction.modrm + 1] & 7 == _RSP
