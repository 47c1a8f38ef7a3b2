"""eBPF for tests: an assembler for the syntax of the bpf_conformance suite, and a generator of random programs."""

from __future__ import annotations

import random
import re
import struct
from itertools import accumulate
from typing import NamedTuple

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.isa import Alu, DataReference, EbpfInstruction, Jump, MapReference
from accel_magic.gpu.program.object_model import EbpfFunction, EbpfProgram
from tests.support.conformance import program_of

ARITHMETIC = {
    "add": Alu.ADD,
    "sub": Alu.SUB,
    "mul": Alu.MUL,
    "div": Alu.DIV,
    "or": Alu.OR,
    "and": Alu.AND,
    "lsh": Alu.LSH,
    "rsh": Alu.RSH,
    "neg": Alu.NEG,
    "mod": Alu.MOD,
    "xor": Alu.XOR,
    "mov": Alu.MOV,
    "arsh": Alu.ARSH,
}
JUMPS = {one.name.lower(): one for one in Jump if one not in (Jump.JA, Jump.CALL, Jump.EXIT)}
SIZES = {"b": (0x10, 1), "h": (0x08, 2), "w": (0x00, 4), "dw": (0x18, 8)}
ATOMICS = {"add": Alu.ADD, "or": Alu.OR, "and": Alu.AND, "xor": Alu.XOR, "xchg": isa.XCHG, "cmpxchg": isa.CMPXCHG}
DATA = ".data"
"""Name of the map that random programs share with their caller."""


class Line(NamedTuple):
    """One line of assembler: its instruction, and the label that it jumps to."""

    instruction: EbpfInstruction
    label: str = ""


def assemble(text):
    """Assemble a program to bytes in the kernel's format. Labels end with a colon; comments start with # or ;."""
    lines, labels, slot, exits = [], {}, 0, 0
    for raw in text.splitlines():
        words = re.split(r"[,\s]+", re.split("[#;]", raw)[0].strip())
        if words == [""]:
            continue
        if words[0].endswith(":"):
            labels[words[0][:-1]] = slot
            continue
        if words[0] == "exit" and not exits:
            labels.setdefault("exit", slot)
            exits += 1
        line = _line(words)
        lines.append((slot, line))
        slot += 1 + line.instruction.wide
    return isa.encode([_resolved(at, line, labels) for at, line in lines])


def program(text, name="program"):
    """Assemble a program whose wide loads can name maps: `lddw %r1, map:counts`, `lddw %r1, data:.bss+8`."""
    whole = program_of(assemble(text), name)
    wide = iter([line.instruction for line in _lines(text) if line.instruction.wide])
    functions = [
        EbpfFunction(one.name, tuple(next(wide) if each and each.wide else each for each in one.code), one.lines)
        for one in whole.functions
    ]
    return EbpfProgram(name, "gpu/exit", tuple(functions))


def _lines(text):
    words = [re.split(r"[,\s]+", re.split("[#;]", raw)[0].strip()) for raw in text.splitlines()]
    return [_line(each) for each in words if each != [""] and not each[0].endswith(":")]


def _resolved(slot, line, labels):
    if not line.label:
        return line.instruction
    distance = int(line.label) if line.label[0] in "+-" else labels[line.label] - slot - 1
    by_immediate = line.instruction.opcode in (isa.JA32, isa.CALL)
    i = line.instruction
    offset, imm = (0, distance) if by_immediate else (distance, i.imm)
    return EbpfInstruction(i.opcode, i.dst, i.src, offset, imm)


def _register(word):
    return int(word.lstrip("%r"))


def _memory(word):
    found = re.fullmatch(r"\[%?r(\d+)\s*([+-]\w+)?\]", word)
    return int(found[1]), int(found[2] or "0", 0)


def _imm(word, bits=32):
    value = int(word, 0) & ((1 << bits) - 1)
    return value if bits == 64 else value - ((value >> 31) << 32)


def _operand(word):
    """Return (opcode bit, source register, immediate)."""
    return (isa.SOURCE_X, _register(word), 0) if word.startswith(("%", "r")) else (0, 0, _imm(word))


def _line(words):
    name, *operands = words
    for pattern, make in _FORMS.items():
        if found := re.fullmatch(pattern, name):
            return make(found, operands)
    raise ValueError(name)


def _wide(found, operands):
    kind, _, rest = operands[1].partition(":")
    if kind == "map":
        return Line(EbpfInstruction(isa.LD_IMM64, _register(operands[0]), reference=MapReference(rest)))
    if kind == "data":
        name, offset = rest.split("+")
        return Line(EbpfInstruction(isa.LD_IMM64, _register(operands[0]), reference=DataReference(name, int(offset))))
    return Line(EbpfInstruction(isa.LD_IMM64, _register(operands[0]), imm=_imm(operands[1], 64)))


def _call(found, operands):
    if operands[0] == "local":
        return Line(EbpfInstruction(isa.CALL, src=isa.CALL_LOCAL), operands[1])
    if operands[0].startswith("%"):
        return Line(EbpfInstruction(isa.CALLX, _register(operands[0])))
    return Line(EbpfInstruction(isa.CALL, imm=_imm(operands[0])))


def _byte_order(found, operands):
    kind = {"le": isa.ALU, "be": isa.ALU | isa.SOURCE_X}.get(found[1], isa.ALU64)
    return Line(EbpfInstruction(Alu.END | kind, _register(operands[0]), imm=int(found[2])))


def _extending(found, operands):
    kind = isa.ALU if found[2] == "32" else isa.ALU64
    dst, src = map(_register, operands)
    return Line(EbpfInstruction(Alu.MOV | isa.SOURCE_X | kind, dst, src, int(found[1])))


def _condition(found, operands):
    bit, src, imm = _operand(operands[1])
    kind = isa.JMP32 if found[2] else isa.JMP
    return Line(EbpfInstruction(JUMPS[found[1]] | bit | kind, _register(operands[0]), src, 0, imm), operands[2])


def _arithmetic(found, operands):
    bit, src, imm = _operand(operands[1]) if len(operands) > 1 else (0, 0, 0)
    opcode = ARITHMETIC[found[2]] | bit | (isa.ALU if found[3] == "32" else isa.ALU64)
    return Line(EbpfInstruction(opcode, _register(operands[0]), src, int(bool(found[1])), imm))


def _access(name, size, operands):
    code = SIZES[size][0]
    if name in ("ldx", "ldxs"):
        mode = isa.MODE_MEM if name == "ldx" else isa.MODE_MEMSX
        src, offset = _memory(operands[1])
        return EbpfInstruction(isa.LDX | mode | code, _register(operands[0]), src, offset)
    dst, offset = _memory(operands[0])
    if name == "st":
        return EbpfInstruction(isa.ST | isa.MODE_MEM | code, dst, 0, offset, _imm(operands[1]))
    return EbpfInstruction(isa.STX | isa.MODE_MEM | code, dst, _register(operands[1]), offset)


def _atomic(words):
    fetch = words[0] == "fetch"
    name, where, register = words[1:] if fetch else words
    narrow = name.endswith("32")
    imm = ATOMICS[name[:-2] if narrow else name] | (isa.FETCH if fetch else 0)
    dst, offset = _memory(where)
    code = 0 if narrow else 0x18
    return EbpfInstruction(isa.STX | isa.MODE_ATOMIC | code, dst, _register(register), offset, imm)


_FORMS = {
    "exit": lambda found, operands: Line(EbpfInstruction(isa.EXIT)),
    "lddw": _wide,
    "call": _call,
    "ja": lambda found, operands: Line(EbpfInstruction(isa.JA), operands[0]),
    "ja32": lambda found, operands: Line(EbpfInstruction(isa.JA32), operands[0]),
    "lock": lambda found, operands: Line(_atomic(operands)),
    r"(le|be|b?swap)(16|32|64)": _byte_order,
    r"movsx(8|16|32)(32|64)": _extending,
    r"(ldxs|ldx|stx|st)(b|h|w|dw)": lambda found, operands: Line(_access(found[1], found[2], operands)),
    rf"({'|'.join(JUMPS)})(32)?": _condition,
    rf"(s(?=div|mod))?({'|'.join(ARITHMETIC)})(32|64)?": _arithmetic,
}


# Random programs that the kernel's verifier accepts by construction: registers are set before they are read, jumps go
# forward (loops count down from a small number), and memory accesses are aligned and within bounds.

FRAME = 10
CONTEXT_SIZE = 256
DATA_SIZE = 64
_STACK = 64
_CONTEXT_REGISTER = 6
_FREE = (0, 1, 2, 3, 4, 5, 7, 8, 9)
_SCRATCH = (1, 2, 3, 4, 5)
_INTERESTING = (0, 1, -1, 2, 7, 8, 31, 32, 63, 64, 255, 256, -256, 0x7FFF, 0x8000, 0x7FFFFFFF, -0x80000000, -0x7FFFFFFF)


class Item(NamedTuple):
    """Instructions that stay together, and by how many items the last one jumps forward."""

    instructions: list
    forward: int = 0


class Generator:
    """Generates random programs, reproducible by seed."""

    def __init__(self, seed, *, context=""):
        self.random = random.Random(seed)
        self.context = context  # map to use as the context, for program types with a fixed context

    def number(self):
        return self.random.choice((*_INTERESTING, self.random.randint(-(1 << 31), (1 << 31) - 1)))

    def register(self, *, leave=()):
        return self.random.choice([one for one in _FREE if one not in leave])

    def constant(self, register):
        if self.random.random() < 0.4:
            return EbpfInstruction(Alu.MOV | isa.ALU64, register, imm=self.number())
        value = self.random.choice((self.random.getrandbits(64), self.number() & (1 << 64) - 1, 1 << 63, 0x80000000))
        return EbpfInstruction(isa.LD_IMM64, register, imm=value)

    def arithmetic(self, leave=()):
        operation = self.random.choice([*ARITHMETIC.values(), "sdiv", "smod", "movsx", "end"])
        kind = self.random.choice((isa.ALU, isa.ALU64))
        dst = self.register(leave=leave)
        if operation == "end":
            form = self.random.choice((isa.ALU, isa.ALU | isa.SOURCE_X, isa.ALU64))
            return Item([EbpfInstruction(Alu.END | form, dst, imm=self.random.choice((16, 32, 64)))])
        if operation == "movsx":
            bits = self.random.choice((8, 16) if kind == isa.ALU else (8, 16, 32))
            return Item([EbpfInstruction(Alu.MOV | isa.SOURCE_X | kind, dst, self.register(), bits)])
        if operation == Alu.NEG:
            return Item([EbpfInstruction(Alu.NEG | kind, dst)])
        signed = operation in ("sdiv", "smod")
        operation = {"sdiv": Alu.DIV, "smod": Alu.MOD}.get(operation, operation)
        if self.random.random() < 0.5:
            return Item([EbpfInstruction(operation | isa.SOURCE_X | kind, dst, self.register(), int(signed))])
        imm = self.number()
        if operation in (Alu.DIV, Alu.MOD):
            imm = imm or 3
        if operation in (Alu.LSH, Alu.RSH, Alu.ARSH):
            imm = self.random.randrange(64 if kind == isa.ALU64 else 32)
        return Item([EbpfInstruction(operation | kind, dst, 0, int(signed), imm)])

    def place(self, size, *, context=True):
        """Choose `size` bytes of memory: (preparing instructions, base register, offset)."""
        where = self.random.choice(("stack", "moved", "data", "data", "context") if context else ("stack", "moved"))
        if where == "stack":
            return [], FRAME, -size * self.random.randint(1, _STACK // size)
        if where == "context":
            return [], _CONTEXT_REGISTER, size * self.random.randrange(CONTEXT_SIZE // size)
        base = self.random.choice(_SCRATCH)
        return self.moved(base, size, main=context) if where == "moved" else self.data(base, size)

    def data(self, base, size):
        offset = size * self.random.randrange(DATA_SIZE // size)
        split = self.random.choice((0, offset))
        before = [EbpfInstruction(isa.LD_IMM64, base, imm=0, reference=DataReference(DATA, split))]
        if split == offset and self.random.random() < 0.3:
            index, mask = self.index(base, size, DATA_SIZE - offset)
            return [*before, mask, EbpfInstruction(Alu.ADD | isa.SOURCE_X | isa.ALU64, base, index)], base, 0
        return before, base, offset - split

    def moved(self, base, size, *, main):
        """Compute a stack address: by addition, from a number, or with an unknown part.

        The kernel does not allow subtraction from a stack address. In a called function, Linux 6.18 mistakes a number
        plus the frame pointer for the caller's frame (its log shows `fp[0]-8`) and removes code that it then considers
        dead, so these forms are used in the main function only.
        """
        offset = size * self.random.randint(1, _STACK // size)
        split = self.random.randrange(0, 100)
        copy = EbpfInstruction(Alu.MOV | isa.SOURCE_X | isa.ALU64, base, FRAME)
        add_frame = EbpfInstruction(Alu.ADD | isa.SOURCE_X | isa.ALU64, base, FRAME)
        form = self.random.choice(("add", "unknown", *(("number", "unknown number") if main else ())))
        if form == "add":
            return [copy, EbpfInstruction(Alu.ADD | isa.ALU64, base, imm=split - offset)], base, -split
        if form == "number":
            return [EbpfInstruction(Alu.MOV | isa.ALU64, base, imm=-offset), add_frame], base, 0
        index, mask = self.index(base, size, offset)
        if form == "unknown":
            return [mask, copy, EbpfInstruction(Alu.ADD | isa.SOURCE_X | isa.ALU64, base, index)], base, -offset
        copy = EbpfInstruction(Alu.MOV | isa.SOURCE_X | isa.ALU64, base, index)
        return [mask, copy, add_frame], base, -offset

    def index(self, base, size, room):
        """Return (a register, the instruction that makes it a multiple of `size`, at most `room` - `size`)."""
        register = self.register(leave={base})
        most = 1 << max(room - size, 0).bit_length() - 1 if room > size else 0
        return register, EbpfInstruction(Alu.AND | isa.ALU64, register, imm=max(most - 1, 0) & -size)

    def access(self, *, context=True):
        code, size = self.random.choice(list(SIZES.values()))
        before, base, offset = self.place(size, context=context)
        form = self.random.choice(("load", "sign", "store", "constant"))
        if form == "sign" and size < 8:
            made = EbpfInstruction(isa.LDX | isa.MODE_MEMSX | code, self.register(), base, offset)
        elif form in ("load", "sign"):
            made = EbpfInstruction(isa.LDX | isa.MODE_MEM | code, self.register(), base, offset)
        elif form == "store":
            made = EbpfInstruction(isa.STX | isa.MODE_MEM | code, base, self.register(leave={base}), offset)
        else:
            made = EbpfInstruction(isa.ST | isa.MODE_MEM | code, base, 0, offset, self.number())
        return Item(self.closed(before, base, made))

    def atomic(self, *, context=True):
        size = self.random.choice((4, 8))
        code = 0 if size == 4 else 0x18
        base = self.random.choice(_SCRATCH)
        aligned = [], FRAME, -size * self.random.randint(1, _STACK // size)
        before, base, offset = self.data(base, size) if context and self.random.random() < 0.6 else aligned
        imm = self.random.choice(list(ATOMICS.values()))
        fetch = isa.FETCH if self.random.random() < 0.5 else 0
        src = self.register(leave={base})
        made = EbpfInstruction(isa.STX | isa.MODE_ATOMIC | code, base, src, offset, imm | fetch)
        item = self.closed(before, base, made)
        if imm == isa.CMPXCHG and size == 4:
            # Linux 6.18 may fail to zero-extend r0 if it is read only after a jump: read it at once.
            item.insert(item.index(made) + 1, EbpfInstruction(Alu.MOV | isa.SOURCE_X | isa.ALU64, src, 0))
        return Item(item)

    def closed(self, before, base, made):
        """Put a number into the register that held the address."""
        loaded = made.kind == isa.LDX and made.dst == base
        return [*before, made, *([self.constant(base)] if before and not loaded else [])]

    def jump(self, most):
        forward = self.random.randint(1, most)
        if self.random.random() < 0.2:
            # Code skipped by a `ja` must be reachable: a condition skips the `ja`.
            always = EbpfInstruction(self.random.choice((isa.JA, isa.JA32)))
            return Item([self.condition(1), always], forward)
        return Item([self.condition(0)], forward)

    def condition(self, distance):
        opcode = self.random.choice(list(JUMPS.values())) | self.random.choice((isa.JMP, isa.JMP32))
        if self.random.random() < 0.5:
            return EbpfInstruction(opcode | isa.SOURCE_X, self.register(), self.register(), distance)
        return EbpfInstruction(opcode, self.register(), 0, distance, self.number())

    def loop(self):
        counter = self.register()
        body = [one for _ in range(self.random.randint(1, 4)) for one in self.arithmetic({counter}).instructions]
        length = sum(1 + one.wide for one in body)
        return Item(
            [
                EbpfInstruction(Alu.MOV | isa.ALU64, counter, imm=self.random.randint(1, 5)),
                *body,
                EbpfInstruction(Alu.SUB | isa.ALU64, counter, imm=1),
                EbpfInstruction(Jump.JNE | isa.JMP, counter, 0, -length - 2, 0),
            ]
        )

    def call(self, functions):
        place = self.random.randint(1, functions)
        return self.call_of(place)

    def call_of(self, place):
        return Item([EbpfInstruction(isa.CALL, src=isa.CALL_LOCAL, imm=place), *map(self.constant, _SCRATCH)])

    def body(self, length, functions, *, context):
        """Generate the items of a body; conditional jumps skip some of them."""
        items = []
        for at in range(length):
            chance = self.random.random()
            if chance < 0.45:
                items.append(self.arithmetic())
            elif chance < 0.65:
                items.append(self.access(context=context))
            elif chance < 0.78:
                items.append(self.atomic(context=context))
            elif chance < 0.92 and at < length - 1:
                items.append(self.jump(min(6, length - 1 - at)))
            elif chance < 0.96 and functions:
                items.append(self.call(functions))
            else:
                items.append(self.loop())
        return items

    def function(self, name, length, functions, *, main):
        """Generate a function: set registers and stack, run the body; main also stores all registers to the context."""
        given_context = EbpfInstruction(Alu.MOV | isa.SOURCE_X | isa.ALU64, _CONTEXT_REGISTER, 1)
        if self.context:
            reference = DataReference(self.context, 0)
            given_context = EbpfInstruction(isa.LD_IMM64, _CONTEXT_REGISTER, reference=reference)
        start = [given_context] if main else []
        given = () if main else _SCRATCH
        for place, register in enumerate(one for one in _FREE if one not in given):
            load = EbpfInstruction(isa.LDX | isa.MODE_MEM | 0x18, register, _CONTEXT_REGISTER, 8 * place)
            start.append(load if main and self.random.random() < 0.6 else self.constant(register))
        whole = isa.STX | isa.MODE_MEM | 0x18
        start += [EbpfInstruction(whole, FRAME, self.register(), -offset) for offset in range(8, _STACK + 1, 8)]
        results = []
        if main:
            results = [
                EbpfInstruction(whole, _CONTEXT_REGISTER, register, 8 * place) for place, register in enumerate(_FREE)
            ]
        calls = [self.call_of(place) for place in range(1, functions + 1)]  # the kernel requires all to be called
        end = Item([*results, EbpfInstruction(isa.EXIT)])
        items = [Item(start), *self.body(length, functions, context=main), *calls, end]
        code = _laid_out(items)
        return EbpfFunction(name, code, (None,) * len(code))

    def program(self, name):
        """Generate a program of one to three functions."""
        functions = self.random.choice((0, 0, 1, 2))
        others = [self.function(f"f{n}", self.random.randint(2, 10), 0, main=False) for n in range(1, functions + 1)]
        main = self.function("main", self.random.randint(8, 40), functions, main=True)
        return EbpfProgram(name, "", (main, *others))


def _laid_out(items):
    sizes = [sum(1 + one.wide for one in item.instructions) for item in items]
    starts = [0, *accumulate(sizes)]
    code = []
    for place, item in enumerate(items):
        *before, last = item.instructions
        if item.forward:
            distance = starts[place + item.forward + 1] - starts[place + 1]
            by_immediate = last.opcode == isa.JA32
            last = EbpfInstruction(
                last.opcode,
                last.dst,
                last.src,
                0 if by_immediate else distance,
                distance if by_immediate else last.imm,
            )
        for one in (*before, last):
            code += [one, None] if one.wide else [one]
    return tuple(code)


def flat(program, data):
    """Flatten to bytecode for the kernel: with relative calls, and the shared map as the file descriptor `data`."""
    starts = [0, *accumulate(len(function.code) for function in program.functions)]
    parts = []
    for start, function in zip(starts, program.functions, strict=False):
        for slot, one in enumerate(function.code, start):
            if one is None:
                continue
            if one.opcode == isa.CALL and one.src == isa.CALL_LOCAL:
                one = EbpfInstruction(isa.CALL, src=isa.CALL_LOCAL, imm=starts[one.imm] - slot - 1)  # noqa: PLW2901
            if isinstance(one.reference, DataReference):
                # BPF_PSEUDO_MAP_VALUE: the descriptor, and the offset in the second half.
                parts.append(
                    struct.pack("<BBhIBBhI", one.opcode, one.dst | 2 << 4, 0, data, 0, 0, 0, one.reference.offset)
                )
            else:
                parts.append(isa.encode([one]))
    return b"".join(parts)


def forms(program):
    """Forms of instructions in a program, as (opcode, variant)."""
    return {form(one) for function in program.functions for one in function.code if one is not None}


def form(one):
    """Return (opcode, offset or immediate if it is part of the operation)."""
    if one.kind in (isa.ALU, isa.ALU64):
        return one.opcode, one.imm if one.operation == Alu.END else one.offset
    if one.kind == isa.STX and one.mode == isa.MODE_ATOMIC:
        return one.opcode, one.imm
    if one.opcode == isa.CALL:
        return one.opcode, one.src
    return one.opcode, 0


def every_form():
    """All forms of ISA version 4 (RFC 9669) except packet access, map references and helper calls."""
    made = set()
    for kind in (isa.ALU, isa.ALU64):
        for source in (0, isa.SOURCE_X):
            made |= {(one | source | kind, 0) for one in ARITHMETIC.values() if one != Alu.NEG or not source}
            made |= {(one | source | kind, 1) for one in (Alu.DIV, Alu.MOD)}
        widths = (8, 16) if kind == isa.ALU else (8, 16, 32)
        made |= {(Alu.MOV | isa.SOURCE_X | kind, bits) for bits in widths}
    for opcode in (Alu.END | isa.ALU, Alu.END | isa.ALU | isa.SOURCE_X, Alu.END | isa.ALU64):
        made |= {(opcode, bits) for bits in (16, 32, 64)}
    for kind in (isa.JMP, isa.JMP32):
        made |= {(one | source | kind, 0) for one in JUMPS.values() for source in (0, isa.SOURCE_X)}
    for code, size in SIZES.values():
        made |= {(one | isa.MODE_MEM | code, 0) for one in (isa.LDX, isa.ST, isa.STX)}
        made |= {(isa.LDX | isa.MODE_MEMSX | code, 0)} if size < 8 else set()
    for code in (0, 0x18):
        opcode = isa.STX | isa.MODE_ATOMIC | code
        made |= {(opcode, one | fetch) for one in ATOMICS.values() for fetch in (0, isa.FETCH)}
    made |= {(isa.JA, 0), (isa.JA32, 0), (isa.EXIT, 0), (isa.LD_IMM64, 0), (isa.CALL, isa.CALL_LOCAL)}
    return made
