"""Random, nearly valid eBPF programs: code that clang could generate, with some checks missing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.helpers import MapType
from accel_magic.gpu.program.isa import Alu, DataReference, EbpfInstruction, Jump, MapReference
from accel_magic.gpu.program.object_model import EbpfFunction, EbpfProgram, MapSpec

MAPS = (
    MapSpec("array", MapType.ARRAY, 4, 16, 8),
    MapSpec("table", MapType.HASH, 8, 24, 64),
    MapSpec("odd", MapType.GPU_ARRAY, 4, 12, 4),
    MapSpec("threads", MapType.PER_THREAD_ARRAY, 4, 8, 1),
    MapSpec("big", MapType.GPU_HASH, 4, 256, 16),
    MapSpec("ring", MapType.RINGBUF, 0, 0, 4096),
    MapSpec(".rodata", MapType.ARRAY, 4, 16, 1, initial=b"\x05\0\0\0abc\0\xff\xff\xff\xff"),
    MapSpec(".bss", MapType.ARRAY, 4, 32, 1),
)
TABLES = MAPS[:5]
SIZE_CODE = {1: 0x10, 2: 0x08, 4: 0x00, 8: 0x18}
OPERATIONS = [
    Alu.ADD,
    Alu.SUB,
    Alu.MUL,
    Alu.DIV,
    Alu.OR,
    Alu.AND,
    Alu.LSH,
    Alu.RSH,
    Alu.MOD,
    Alu.XOR,
    Alu.ARSH,
    Alu.NEG,
    Alu.MOV,
]
CONDITIONS = [one for one in Jump if one not in (Jump.JA, Jump.CALL, Jump.EXIT)]
NUMBERS = (502, 511, 600, 14, 607)


def program(random, dialect=None):
    """Make one program; each function may call later ones."""
    count = random.choice((1, 1, 2, 3))
    made = []
    for place in range(count):
        code = tuple(Writer(random, place, count, dialect or Dialect()).write())
        made.append(EbpfFunction(f"f{place}", code, (None,) * len(code)))
    return EbpfProgram("made", "gpu/exit", tuple(made))


@dataclass(frozen=True)
class Dialect:
    """What programs may use: helpers that return numbers, maps, context fields, global data; and excluded fragments."""

    numbers: tuple = NUMBERS
    tables: tuple = TABLES
    fields: tuple = ((0, 8), (8, 4), (12, 4), (16, 4), (28, 4), (32, 8), (32, 4))
    data: tuple = ((".rodata", 16), (".bss", 32))
    left_out: tuple = ()
    operations: tuple = tuple(OPERATIONS)
    moves: tuple = (Alu.ADD, Alu.ADD, Alu.ADD, Alu.SUB)


class Writer:
    """Generates one function, fragment by fragment."""

    def __init__(self, random, place, functions, dialect):
        self.dialect = dialect
        self.random = random
        self.place = place
        self.functions = functions
        self.code = []
        self.numbers = set()
        self.written = {}
        self.spilled = {}
        self.depth = 0

    def write(self):
        """Generate and return its instructions."""
        if self.place == 0:
            self.put(isa.ALU64 | Alu.MOV | 8, 6, 1)
        else:
            self.put(isa.ALU64 | Alu.MOV | 8, 7, 1)
            self.numbers.add(7)
        for _ in range(self.random.randrange(2, 9)):
            self.fragment()
        self.put(isa.ALU64 | Alu.MOV, 0, imm=0)
        self.put(isa.EXIT)
        for _ in range(self.random.choice((0, 0, 1, 1, 2))):
            self.spoil()
        return self.code

    def put(self, opcode, dst=0, src=0, offset=0, *, imm=0, reference=None):
        self.code.append(EbpfInstruction(opcode, dst, src, offset, imm, reference))
        if opcode == isa.LD_IMM64:
            self.code.append(None)
        return len(self.code) - 1

    def likely(self, chance=0.9):
        return self.random.random() < chance

    def fragment(self):
        kinds = [
            (self.constant, 2),
            (self.helper_number, 3),
            (self.arithmetic, 6),
            (self.narrow, 4),
            (self.store, 3),
            (self.load, 2),
            (self.spill, 2),
            (self.fill, 2),
            (self.lookup, 5),
            (self.context, 2),
            (self.outputs, 1),
            (self.branch, 5 if self.depth < 3 else 0),
            (self.loop, 1 if self.depth < 2 else 0),
            (self.ring, 1),
            (self.text, 0.5),
            (self.call_local, 2 if self.place + 1 < self.functions else 0),
            (self.data, 2),
            (self.indexed_stack, 1),
            (self.compare_pointers, 0.3),
        ]
        kinds = [(kind, weight) for kind, weight in kinds if kind.__name__ not in self.dialect.left_out]
        choice, weights = zip(*kinds, strict=True)
        self.random.choices(choice, weights)[0]()

    def block(self):
        """Write a few fragments that may be skipped: registers that they set may be unset afterwards."""
        numbers, written, spilled = set(self.numbers), dict(self.written), dict(self.spilled)
        self.depth += 1
        for _ in range(self.random.randrange(1, 4)):
            self.fragment()
        self.depth -= 1
        self.numbers &= numbers
        self.written = {at: size for at, size in written.items() if self.written.get(at) == size}
        self.spilled = {at: what for at, what in spilled.items() if self.spilled.get(at) == what}

    def a_number(self):
        """Return a register from r7 to r9 that holds a number."""
        if not self.numbers or not self.likely(0.97):
            register = self.random.choice((7, 8, 9))
            self.put(isa.ALU64 | Alu.MOV, register, imm=self.random.choice((0, 1, 7, 8, 15, 255)))
            self.numbers.add(register)
            return register
        return self.random.choice(sorted(self.numbers))

    def target(self):
        register = self.random.choice((7, 8, 9))
        self.numbers.add(register)
        return register

    def an_immediate(self):
        return self.random.choice((0, 1, 2, 3, 4, 7, 8, 12, 15, 16, 31, 63, -1, -8, 255, 1 << 20, -(1 << 31)))

    def constant(self):
        self.put(isa.ALU64 | Alu.MOV, self.target(), imm=self.an_immediate())

    def helper_number(self):
        self.put(isa.CALL, imm=self.random.choice(self.dialect.numbers))
        self.put(isa.ALU64 | Alu.MOV | 8, self.target(), 0)

    def arithmetic(self):
        left = self.a_number()
        kind = self.random.choice((isa.ALU64, isa.ALU))
        operation = self.random.choice(self.dialect.operations)
        if operation == Alu.NEG:
            self.put(kind | Alu.NEG, left)
            return
        offset = self.random.choice((0, 1)) if operation in (Alu.DIV, Alu.MOD) else 0
        if self.likely(0.5):
            right = self.a_number()
            if operation == Alu.MOV:
                offset = self.random.choice((0, 0, 8, 16))
            self.put(kind | operation | 8, left, right, offset)
            return
        imm = self.an_immediate()
        if operation in (Alu.LSH, Alu.RSH, Alu.ARSH):
            imm = self.random.randrange(32)
        elif operation in (Alu.DIV, Alu.MOD) and not imm:
            imm = 3
        self.put(kind | operation, left, offset=offset, imm=imm)

    def narrow(self):
        """Limit a number to a small range, like an index."""
        register = self.a_number()
        kind = self.random.choice((isa.ALU64, isa.ALU))
        way = self.random.randrange(4)
        if way == 0:
            self.put(kind | Alu.AND, register, imm=self.random.choice((1, 3, 4, 7, 8, 15, 24, 60, 255)))
        elif way == 1 and Alu.MOD in self.dialect.operations:
            self.put(kind | Alu.MOD, register, imm=self.random.choice((2, 3, 4, 8, 16, 13)))
        elif way == 2:
            self.put(kind | Alu.RSH, register, imm=(64 if kind == isa.ALU64 else 32) - self.random.randrange(1, 6))
        else:
            self.put(isa.ALU64 | Alu.LSH, register, imm=32)
            self.put(isa.ALU64 | self.random.choice((Alu.RSH, Alu.ARSH)), register, imm=32)

    def a_slot(self, size):
        return -size * self.random.randrange(1, 64 // size + 1)

    def store(self):
        size = self.random.choice((1, 2, 4, 8))
        at = self.a_slot(size)
        if self.likely(0.4):
            self.put(isa.ST | isa.MODE_MEM | SIZE_CODE[size], 10, offset=at, imm=self.an_immediate())
        else:
            self.put(isa.STX | isa.MODE_MEM | SIZE_CODE[size], 10, self.a_number(), at)
        self.wrote(at, size)

    def wrote(self, at, size):
        self.written[at] = size
        self.spilled = {other: what for other, what in self.spilled.items() if not at - 8 < other < at + size}

    def load(self):
        if not self.written:
            return
        at, size = self.random.choice(sorted(self.written.items()))
        if self.likely(0.3):
            size = self.random.choice([one for one in (1, 2, 4, 8) if one <= size])
        mode = isa.MODE_MEMSX if size < 8 and self.likely(0.3) else isa.MODE_MEM
        self.put(isa.LDX | mode | SIZE_CODE[size], self.target(), 10, at)

    def spill(self):
        at = self.a_slot(8)
        if self.place == 0 and self.likely(0.3):
            self.put(isa.STX | isa.MODE_MEM | SIZE_CODE[8], 10, 6, at)
            self.wrote(at, 8)
            self.spilled[at] = "context"
            del self.written[at]
            return
        self.put(isa.STX | isa.MODE_MEM | SIZE_CODE[8], 10, self.a_number(), at)
        self.wrote(at, 8)
        self.spilled[at] = "number"

    def fill(self):
        if not self.spilled:
            return
        at, what = self.random.choice(sorted(self.spilled.items()))
        self.put(isa.LDX | isa.MODE_MEM | SIZE_CODE[8], self.target() if what == "number" else 6, 10, at)

    def lookup(self):
        """Look up a value, usually check it for null, usually check an index, and use the value."""
        spec = self.random.choice(self.dialect.tables)
        at = -8 * self.random.randrange(1, 9)
        size = spec.key_size if self.likely(0.97) else 4
        if self.likely(0.3):
            self.put(isa.ST | isa.MODE_MEM | SIZE_CODE[size], 10, offset=at, imm=self.random.choice((0, 1, 5)))
        else:
            self.put(isa.STX | isa.MODE_MEM | SIZE_CODE[size], 10, self.a_number(), at)
        self.wrote(at, size)
        self.point(1, spec.name)
        self.put(isa.ALU64 | Alu.MOV | 8, 2, 10)
        self.put(isa.ALU64 | Alu.ADD, 2, imm=at)
        self.put(isa.CALL, imm=1)
        if self.likely(0.1):
            self.put(isa.STX | isa.MODE_MEM | SIZE_CODE[8], 10, 0, self.a_slot(8))
        jump = self.put(isa.JMP | Jump.JEQ, 0) if self.likely(0.95) else None
        numbers = set(self.numbers)
        self.use_value(spec.value_size)
        if jump is not None:
            self.land(jump)
        self.numbers &= numbers

    def point(self, register, name):
        self.put(isa.LD_IMM64, register, 1, reference=MapReference(name))

    def land(self, jump):
        """Make a jump go to the next instruction."""
        self.code[jump] = replace(self.code[jump], offset=len(self.code) - 1 - jump)

    def use_value(self, limit):
        """Use the memory that r0 points to, sometimes at a checked index."""
        size = self.random.choice((1, 2, 4, 8))
        offset = size * self.random.randrange(max(1, limit // size)) if self.likely(0.97) else limit - size + 1
        guard = None
        if self.likely(0.4):
            register = self.a_number()
            condition, imm = self.random.choice(
                ((Jump.JGT, limit - size - offset), (Jump.JGE, limit - size - offset + 1), (Jump.JSGT, limit - size))
            )
            kind = self.random.choice((isa.JMP, isa.JMP, isa.JMP32))
            if self.likely(0.2):
                self.put(isa.ALU64 | Alu.MOV | 8, 2, register)
                guard = self.put(kind | condition, 2, imm=imm)
            elif self.likely(0.85):
                guard = self.put(kind | condition, register, imm=imm)
            self.put(isa.ALU64 | self.random.choice(self.dialect.moves) | 8, 0, register)
        self.touch(0, size, offset)
        if guard is not None:
            self.land(guard)

    def touch(self, base, size, offset):
        way = self.random.randrange(4)
        if way == 0:
            mode = isa.MODE_MEMSX if size < 8 and self.likely(0.3) else isa.MODE_MEM
            self.put(isa.LDX | mode | SIZE_CODE[size], self.target(), base, offset)
        elif way == 1:
            self.put(isa.STX | isa.MODE_MEM | SIZE_CODE[size], base, self.a_number(), offset)
        elif way == 2:
            self.put(isa.ST | isa.MODE_MEM | SIZE_CODE[size], base, offset=offset, imm=self.an_immediate())
        elif size >= 4:
            imm = self.random.choice((0, isa.FETCH, 0x40, 0x51, isa.XCHG))
            self.put(isa.STX | isa.MODE_ATOMIC | SIZE_CODE[size], base, self.a_number(), offset, imm=imm)

    def context(self):
        if self.place:
            return
        at, size = self.random.choice(self.dialect.fields)
        self.put(isa.LDX | isa.MODE_MEM | SIZE_CODE[size], self.target(), 6, at)

    def outputs(self):
        for register, at in ((1, -8), (2, -16), (3, -24)):
            self.put(isa.ALU64 | Alu.MOV | 8, register, 10)
            self.put(isa.ALU64 | Alu.ADD, register, imm=at if self.likely(0.98) else at + 4)
            self.wrote(at, 8)
        self.put(isa.CALL, imm=self.random.choice((503, 505)))

    def branch(self):
        left = self.a_number()
        condition = self.random.choice(CONDITIONS)
        kind = self.random.choice((isa.JMP, isa.JMP32))
        if self.likely(0.3):
            jump = self.put(kind | condition | 8, left, self.a_number())
        else:
            jump = self.put(kind | condition, left, imm=self.an_immediate())
        self.block()
        if not self.likely(0.3):
            self.land(jump)
            return
        skip = self.put(isa.JA)
        self.land(jump)
        self.block()
        self.land(skip)

    def loop(self):
        """Write a loop with a constant limit; its counter is on the stack because the body may use any register."""
        at = -72 - 8 * self.depth
        self.put(isa.ST | isa.MODE_MEM | SIZE_CODE[8], 10, offset=at, imm=0)
        head = len(self.code)
        before = set(self.numbers)
        self.block()
        self.numbers = before
        self.put(isa.LDX | isa.MODE_MEM | SIZE_CODE[8], 5, 10, at)
        self.put(isa.ALU64 | Alu.ADD, 5, imm=1)
        self.put(isa.STX | isa.MODE_MEM | SIZE_CODE[8], 10, 5, at)
        back = self.put(isa.JMP | Jump.JLT, 5, imm=self.random.randrange(2, 12))
        self.code[back] = replace(self.code[back], offset=head - back - 1)

    def ring(self):
        size = self.random.choice((8, 16, 24))
        self.point(1, "ring")
        self.put(isa.ALU64 | Alu.MOV, 2, imm=size)
        self.put(isa.ALU64 | Alu.MOV, 3, imm=0)
        self.put(isa.CALL, imm=131)
        jump = self.put(isa.JMP | Jump.JEQ, 0)
        self.touch(0, 8, 0)
        if self.likely(0.9):
            self.put(isa.ALU64 | Alu.MOV | 8, 1, 0)
            self.put(isa.ALU64 | Alu.MOV, 2, imm=0)
            self.put(isa.CALL, imm=self.random.choice((132, 133)))
        if self.likely(0.1):
            self.touch(0, 8, 8)
        self.land(jump)

    def text(self):
        at = -16
        self.put(isa.ST | isa.MODE_MEM | SIZE_CODE[8], 10, offset=at, imm=0x41414141 if self.likely(0.3) else 65)
        self.wrote(at, 8)
        self.put(isa.ALU64 | Alu.MOV | 8, 1, 10)
        self.put(isa.ALU64 | Alu.ADD, 1, imm=at)
        if self.likely(0.5):
            self.put(isa.CALL, imm=501)
            return
        self.put(isa.ALU64 | Alu.MOV, 2, imm=8)
        self.put(isa.ALU64 | Alu.MOV | 8, 3, self.a_number())
        self.put(isa.CALL, imm=6)

    def call_local(self):
        self.put(isa.ALU64 | Alu.MOV | 8, 1, self.a_number())
        self.put(isa.CALL, 0, isa.CALL_LOCAL, imm=self.random.randrange(self.place + 1, self.functions))
        if self.likely(0.5):
            self.put(isa.ALU64 | Alu.MOV | 8, self.target(), 0)

    def data(self):
        name, limit = self.random.choice(self.dialect.data)
        at = 4 * self.random.randrange(limit // 4)
        self.put(isa.LD_IMM64, 0, 2, reference=DataReference(name, at))
        if name == ".rodata" and self.likely(0.9):
            self.put(isa.LDX | isa.MODE_MEM | SIZE_CODE[4], self.target(), 0, 0)
        else:
            numbers = set(self.numbers)
            self.use_value(limit - at)
            self.numbers &= numbers

    def indexed_stack(self):
        """Fill 16 bytes, and read or write one of them at a checked index."""
        for at in (-16, -8):
            self.put(isa.ST | isa.MODE_MEM | SIZE_CODE[8], 10, offset=at, imm=0)
            self.wrote(at, 8)
        register = self.a_number()
        self.put(isa.ALU64 | Alu.MOV | 8, 3, register)
        self.put(isa.ALU64 | Alu.AND, 3, imm=15 if self.likely() else 31)
        self.put(isa.ALU64 | Alu.MOV | 8, 2, 10)
        self.put(isa.ALU64 | Alu.ADD | 8, 2, 3)
        if self.likely(0.5):
            self.put(isa.LDX | isa.MODE_MEM | SIZE_CODE[1], self.target(), 2, -16)
        else:
            self.put(isa.STX | isa.MODE_MEM | SIZE_CODE[1], 2, register, -16)

    def compare_pointers(self):
        self.put(isa.ALU64 | Alu.MOV | 8, 2, 10)
        self.put(isa.ALU64 | Alu.ADD, 2, imm=-8)
        jump = self.put(isa.JMP | self.random.choice((Jump.JEQ, Jump.JGT, Jump.JNE)) | 8, 2, 10)
        self.block()
        self.land(jump)

    def spoil(self):
        """Change one instruction: remove a check, or change a number or a register."""
        slot = self.random.randrange(len(self.code))
        one = self.code[slot]
        if one is None or one.wide or one.opcode == isa.EXIT:
            return
        way = self.random.randrange(5)
        if way == 0 and one.kind in (isa.JMP, isa.JMP32) and one.opcode != isa.CALL:
            self.code[slot] = EbpfInstruction(isa.ALU64 | Alu.MOV, 7, imm=0)
        elif way == 1 and one.opcode != isa.CALL and one.imm and one.kind != isa.STX:
            self.code[slot] = replace(one, imm=one.imm + self.random.choice((-1, 1, 8)))
        elif way == 2 and one.kind in (isa.LDX, isa.ST, isa.STX):
            self.code[slot] = replace(one, offset=one.offset + self.random.choice((-8, -1, 1, 8)))
        elif way == 3 and one.kind in (isa.ALU, isa.ALU64, isa.LDX):
            self.code[slot] = replace(one, dst=self.random.randrange(10))
        elif way == 4 and one.from_register and one.kind in (isa.ALU, isa.ALU64):
            self.code[slot] = replace(one, src=self.random.randrange(10))
