"""Random programs in which threads diverge: branches, loops, spills, calls, maps. Safe to run by construction."""

import random
from dataclasses import dataclass, field

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.helpers import MapType
from accel_magic.gpu.program.isa import Alu, EbpfInstruction, Jump, MapReference
from accel_magic.gpu.program.object_model import EbpfFunction, EbpfProgram, MapSpec

MAPS = (
    MapSpec("shared", MapType.GPU_ARRAY, 4, 8, 4),
    MapSpec("settings", MapType.GPU_ARRAY, 4, 8, 4),
    MapSpec("own", MapType.PER_THREAD_ARRAY, 4, 8, 4),
)
"""`shared` may be written, `settings` is read-only, `own` is per thread."""
VARIABLES = (7, 8, 9)
CELLS = (-8, -16, -24, -32)
KEY, COUNTERS = -40, (-48, -56, -64)
NUMBERS = (8, 14, 502, 509, 510, 511, 600, 601, 607, 608)
TRIPLES = (503, 504, 505, 508)
SIZES = {1: 0x10, 2: 0x08, 4: 0x00, 8: 0x18}
CONDITIONS = (Jump.JEQ, Jump.JNE, Jump.JGT, Jump.JGE, Jump.JLT, Jump.JLE, Jump.JSET, Jump.JSGT, Jump.JSLE)
OPERATIONS = (Alu.ADD, Alu.SUB, Alu.MUL, Alu.OR, Alu.AND, Alu.XOR, Alu.LSH, Alu.RSH, Alu.MOV, Alu.NEG)
FIELDS = ((0, 8), (8, 4), (16, 4), (24, 4), (28, 4), (32, 8))


def alu(operation, dst, *, src=None, imm=0, wide=True):
    kind = isa.ALU64 if wide else isa.ALU
    if src is None:
        return EbpfInstruction(kind | operation, dst, imm=imm)
    return EbpfInstruction(kind | operation | isa.SOURCE_X, dst, src)


def load(dst, src, offset, size=8):
    return EbpfInstruction(isa.LDX | isa.MODE_MEM | SIZES[size], dst, src, offset)


def store(dst, offset, src, size=8):
    return EbpfInstruction(isa.STX | isa.MODE_MEM | SIZES[size], dst, src, offset)


def put(dst, offset, imm, size=8):
    return EbpfInstruction(isa.ST | isa.MODE_MEM | SIZES[size], dst, offset=offset, imm=imm)


def atomic(dst, offset, src, operation, size=8):
    return EbpfInstruction(isa.STX | isa.MODE_ATOMIC | SIZES[size], dst, src, offset, operation)


def call(helper):
    return EbpfInstruction(isa.CALL, imm=helper)


def handle(register, name):
    return [EbpfInstruction(isa.LD_IMM64, register, 1, reference=MapReference(name)), None]


@dataclass
class Writer:
    """Generates one function.

    Attributes:
        functions: Number of functions that can be called: indices 1 to this.
        writes: Whether `shared` is ever written.

    """

    rng: random.Random
    functions: int
    writes: bool
    code: list = field(default_factory=list)
    loops: list = field(default_factory=list)
    depth: int = 0
    nested: int = 0

    def write(self, *, main):
        self.code.append(alu(Alu.MOV, 6, src=1) if main else alu(Alu.MOV, 7, src=1))
        for register in VARIABLES[0 if main else 1 :]:
            self.code.append(alu(Alu.MOV, register, imm=self.rng.randrange(5)))
        if not main:
            self.code.append(alu(Alu.MOV, 6, src=2))
        self.code += [put(10, cell, self.rng.randrange(4)) for cell in (*CELLS, KEY)]
        self.main = main
        if self.rng.random() < 0.7:
            self.code += [call(511), alu(Alu.MOV, 9, src=0)]
        self.block(self.rng.randrange(3, 8))
        self.code.append(alu(Alu.MOV, 0, src=self.variable()))
        self.code.append(EbpfInstruction(isa.EXIT))
        return tuple(self.code)

    def variable(self):
        return self.rng.choice(VARIABLES)

    def __post_init__(self):
        # Programs with few kinds of statements find more bugs than those with all kinds.
        kinds = [self.assign, self.compute, self.number, self.triple, self.spill, self.fill, self.look, self.field]
        self.kinds = self.rng.sample(kinds, 3) + [self.invoke] * bool(self.functions)

    def block(self, statements):
        for _ in range(statements):
            nested = [self.branch, self.loop] if self.depth < 3 else []
            self.rng.choice([self.assign, *self.kinds, *nested])()

    def assign(self):
        if self.rng.random() < 0.3:
            self.code.append(alu(Alu.ADD, self.variable(), imm=1))
        else:
            self.code.append(alu(Alu.MOV, self.variable(), imm=self.rng.randrange(4)))

    def compute(self):
        operation = self.rng.choice(OPERATIONS)
        wide = self.rng.random() < 0.7
        if operation == Alu.NEG:
            self.code.append(alu(operation, self.variable(), wide=wide))
        elif operation in (Alu.LSH, Alu.RSH) or self.rng.random() < 0.5:
            self.code.append(alu(operation, self.variable(), imm=self.rng.randrange(8), wide=wide))
        else:
            self.code.append(alu(operation, self.variable(), src=self.variable(), wide=wide))

    def number(self):
        self.code += [call(self.rng.choice(NUMBERS)), alu(Alu.MOV, self.variable(), src=0)]

    def triple(self):
        cells = self.rng.sample(CELLS, 3)
        for register, cell in zip((1, 2, 3), cells, strict=True):
            self.code += [alu(Alu.MOV, register, src=10), alu(Alu.ADD, register, imm=cell)]
        self.code += [call(self.rng.choice(TRIPLES)), load(self.variable(), 10, self.rng.choice(cells))]

    def field(self):
        if not self.main:
            return
        offset, size = self.rng.choice(FIELDS)
        self.code.append(load(self.variable(), 6, offset, size))

    def piece(self):
        size = self.rng.choice((1, 2, 4, 8, 8, 8))
        return self.rng.choice(CELLS) + self.rng.randrange(0, 8, size), size

    def spill(self):
        offset, size = self.piece()
        if self.rng.random() < 0.2:
            self.code.append(put(10, offset, self.rng.randrange(3), size))
        else:
            self.code.append(store(10, offset, self.variable(), size))

    def fill(self):
        offset, size = self.piece()
        self.code.append(load(self.variable(), 10, offset, size))

    def look(self):
        """Look a value up, and use it if it exists."""
        name = self.rng.choice(("shared", "settings", "own"))
        if self.rng.random() < 0.5:
            self.code.append(put(10, KEY, self.rng.randrange(5), 4))
        else:
            self.code.append(store(10, KEY, self.variable(), 4))
        self.code += handle(1, name)
        self.code += [alu(Alu.MOV, 2, src=10), alu(Alu.ADD, 2, imm=KEY), call(1)]
        jump = len(self.code)
        self.code.append(None)
        changes = name == "own" or (name == "shared" and self.writes)
        choice = self.rng.randrange(5 if changes else 2)
        if choice < 2:
            self.code.append(load(self.variable(), 0, 0))
        elif choice == 2:
            self.code.append(store(0, 0, self.variable()))
        elif choice == 3:
            self.code.append(atomic(0, 0, self.variable(), Alu.ADD | isa.FETCH))
        else:
            self.code.append(atomic(0, 0, self.variable(), Alu.ADD))
        self.code[jump] = EbpfInstruction(isa.JMP | Jump.JEQ, 0, offset=len(self.code) - jump - 1)

    def invoke(self):
        self.code += [alu(Alu.MOV, 1, src=self.variable()), alu(Alu.MOV, 2, imm=self.rng.randrange(4))]
        self.code.append(EbpfInstruction(isa.CALL, src=isa.CALL_LOCAL, imm=self.rng.randint(1, self.functions)))
        self.code.append(alu(Alu.MOV, self.variable(), src=0))

    def condition(self, offset=0):
        operation = self.rng.choice(CONDITIONS)
        kind = isa.JMP if self.rng.random() < 0.7 else isa.JMP32
        if self.rng.random() < 0.7:
            return EbpfInstruction(kind | operation, self.variable(), 0, offset, self.rng.randrange(6))
        return EbpfInstruction(kind | operation | isa.SOURCE_X, self.variable(), self.variable(), offset)

    def skip(self):
        """Reserve a slot for a jump that is filled in later."""
        self.code.append(None)
        return len(self.code) - 1

    def land(self, jump, condition=None):
        distance = len(self.code) - jump - 1
        if condition is None:
            self.code[jump] = EbpfInstruction(isa.JA, offset=distance)
        else:
            self.code[jump] = EbpfInstruction(condition.opcode, condition.dst, condition.src, distance, condition.imm)

    def branch(self):
        condition, jump = self.condition(), self.skip()
        self.depth += 1
        self.block(self.rng.randrange(1, 3))
        if self.rng.random() < 0.12:
            self.code += [alu(Alu.MOV, 0, src=self.variable()), EbpfInstruction(isa.EXIT)]
        if self.rng.random() < 0.5:
            over = self.skip()
            self.land(jump, condition)
            self.block(self.rng.randrange(1, 3))
            self.land(over)
        else:
            self.land(jump, condition)
        self.depth -= 1

    def loop(self):
        """Write a loop of a few iterations, with breaks and continues."""
        if self.nested == len(COUNTERS):
            return
        counter = COUNTERS[self.nested]
        limit = self.rng.randrange(1, 4)
        self.code.append(put(10, counter, 0))
        head = len(self.code)
        self.depth += 1
        self.nested += 1
        top = self.rng.random() < 0.5
        ends = []
        if top:
            ends.append(self.exit_when_done(counter, limit))
        breaks, continues = [], []
        for _ in range(self.rng.randrange(1, 4)):
            if self.rng.random() < 0.4:
                jumps = breaks if self.rng.random() < 0.6 else continues
                jumps.append((self.skip(), self.condition()))
            self.block(1)
        for jump, condition in continues:
            self.land(jump, condition)
        self.code += [load(0, 10, counter), alu(Alu.ADD, 0, imm=1), store(10, counter, 0)]
        if top:
            self.code.append(EbpfInstruction(isa.JA, offset=head - len(self.code) - 1))
        else:
            self.code.append(load(0, 10, counter))
            self.code.append(EbpfInstruction(isa.JMP | Jump.JLT, 0, offset=head - len(self.code) - 1, imm=limit))
        last = len(self.code)
        self.leave(breaks, ends)
        self.nested -= 1
        self.depth -= 1
        self.loops.append((head, last))

    def leave(self, breaks, ends):
        """Land the jumps out of a loop; some execute an assignment first."""
        over = []
        for jump, condition in breaks:
            if self.rng.random() < 0.5:
                over.append(self.skip())
                self.land(jump, condition)
                self.assign()
            else:
                ends.append((jump, condition))
        for jump, condition in ends:
            self.land(jump, condition)
        for jump in over:
            self.land(jump)

    def exit_when_done(self, counter, limit):
        self.code.append(load(0, 10, counter))
        return self.skip(), EbpfInstruction(isa.JMP | Jump.JGE, 0, imm=limit)


def program(seed):
    """A program, and for each of its functions the loops as (head, end)."""
    rng = random.Random(seed)
    count = rng.choice((0, 0, 1, 2))
    writes = rng.random() < 0.6
    functions, loops = [], []
    for place in range(count + 1):
        writer = Writer(rng, count if place == 0 else 0, writes)
        code = writer.write(main=place == 0)
        functions.append(EbpfFunction(f"f{place}", code, (None,) * len(code)))
        loops.append(writer.loops)
    return EbpfProgram("random", "gpu/entry", tuple(functions)), loops


def natural(code, ranges):
    """Loops as (head, slots from which the head can be reached again). This excludes code after a break."""
    found = []
    for head, end in ranges:
        inside = {head}
        grown = True
        while grown:
            grown = False
            for slot in range(head, end):
                if slot not in inside and code[slot] is not None and _ways(slot, code[slot]) & inside:
                    inside.add(slot)
                    grown = True
        found.append((head, frozenset(inside)))
    return found


def _ways(slot, instruction):
    after = slot + 1 + instruction.wide
    if instruction.opcode == isa.EXIT:
        return set()
    if instruction.opcode == isa.JA:
        return {after + instruction.offset}
    if instruction.kind in (isa.JMP, isa.JMP32) and instruction.opcode != isa.CALL:
        return {after, after + instruction.offset}
    return {after}
