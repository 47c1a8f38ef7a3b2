"""Runs one eBPF program in many threads, one at a time, and records registers and stack at each step.

This is the oracle for the verifier's claims about differences between threads. It is independent of the verifier: a
step is an instruction, the calls through which it was reached, and the iteration of each loop around it; the program's
author provides the loops.
"""

import random
from collections import defaultdict
from dataclasses import dataclass, field

from accel_magic.gpu.program import context, isa
from accel_magic.gpu.program.helpers import MapType
from accel_magic.gpu.program.isa import Alu, Jump

U64 = (1 << 64) - 1
LANES, WARPS, BLOCKS = 8, 2, 2
STACK = 0x10000
CONTEXT = 0x1000
VALUES = 0x100000
"""Addresses: the stack of frame n ends at STACK * (n + 1); map values begin at VALUES."""


@dataclass(frozen=True)
class Thread:
    block: int
    warp: int
    lane: int

    @property
    def number(self):
        return (self.block * WARPS + self.warp) * LANES + self.lane


THREADS = tuple(Thread(b, w, x) for b in range(BLOCKS) for w in range(WARPS) for x in range(LANES))


def signed(value, bits=64):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _divided(one, two, bits):
    return one // two if two else 0


ARITHMETIC = {
    Alu.ADD: lambda a, b, n: a + b,
    Alu.SUB: lambda a, b, n: a - b,
    Alu.MUL: lambda a, b, n: a * b,
    Alu.DIV: _divided,
    Alu.MOD: lambda a, b, n: a % b if b else a,
    Alu.OR: lambda a, b, n: a | b,
    Alu.AND: lambda a, b, n: a & b,
    Alu.XOR: lambda a, b, n: a ^ b,
    Alu.LSH: lambda a, b, n: a << (b & (n - 1)),
    Alu.RSH: lambda a, b, n: a >> (b & (n - 1)),
    Alu.ARSH: lambda a, b, n: signed(a, n) >> (b & (n - 1)),
    Alu.NEG: lambda a, b, n: -a,
    Alu.MOV: lambda a, b, n: b,
}
CONDITIONS = {
    Jump.JEQ: lambda a, b, n: a == b,
    Jump.JNE: lambda a, b, n: a != b,
    Jump.JGT: lambda a, b, n: a > b,
    Jump.JGE: lambda a, b, n: a >= b,
    Jump.JLT: lambda a, b, n: a < b,
    Jump.JLE: lambda a, b, n: a <= b,
    Jump.JSET: lambda a, b, n: bool(a & b),
    Jump.JSGT: lambda a, b, n: signed(a, n) > signed(b, n),
    Jump.JSGE: lambda a, b, n: signed(a, n) >= signed(b, n),
    Jump.JSLT: lambda a, b, n: signed(a, n) < signed(b, n),
    Jump.JSLE: lambda a, b, n: signed(a, n) <= signed(b, n),
}


@dataclass
class Frame:
    place: int
    path: tuple
    registers: list
    slot: int = 0
    rounds: dict = field(default_factory=dict)


@dataclass
class Machine:
    """One launch.

    Args:
        functions: Code of each function.
        loops: Loops of each function: (head, slots of the body).
        maps: Declarations, in the order of their handles.
        seed: Seed for everything that differs between launches: contents of maps and of the context.
        room: Number of threads for which per-thread maps have values.
        replayed: By store, (function, slot): the slots that are executed again right before it, in the same step.

    """

    functions: list
    loops: list
    maps: list
    seed: int = 0
    room: int = 1 << 30
    replayed: dict = field(default_factory=dict)

    def __post_init__(self):
        rng = random.Random(self.seed)
        self.memory = {}
        self.launch = {f.name: rng.choice((0, 1, 2, 5, 40)) for f in context.FIELDS}
        for at, spec in enumerate(self.maps):
            for key in range(spec.max_entries):
                self.put(self.address(at, key, None), rng.choice((0, 1, 3, 7, 100)), spec.value_size)

    def address(self, at, key, thread):
        """Address of a value; `thread` is None for shared maps."""
        own = 0 if thread is None else thread.number + 1
        return VALUES * (1 + at) + 0x1000 * own + key * self.maps[at].value_size

    def handle(self, name):
        return [spec.name for spec in self.maps].index(name)

    def put(self, at, value, size):
        for byte in range(size):
            self.memory[at + byte] = value >> 8 * byte & 255

    def get(self, at, size):
        return sum(self.memory.get(at + byte, 0) << 8 * byte for byte in range(size))

    def steps(self, thread, limit=5000):
        """Run a thread; yields (key, registers, stack) before each of its instructions.

        A key is the calls, the function, the slot and the loop iterations; the stack is a dict of the written bytes by
        offset from r10.
        """
        registers = [0] * 11
        registers[1], registers[10] = CONTEXT, STACK
        rng = random.Random(self.seed * 1000 + thread.number)
        memory = {}
        frames = [Frame(0, (), registers)]
        for _ in range(limit):
            frame = frames[-1]
            for at, (head, body) in enumerate(self.loops[frame.place]):
                if frame.slot not in body:
                    frame.rounds.pop(at, None)
                elif frame.slot == head:
                    frame.rounds[at] = frame.rounds.get(at, -1) + 1
            key = (frame.path, frame.place, frame.slot, tuple(sorted(frame.rounds.items())))
            end = frame.registers[10]
            stack = {address - end: byte for address, byte in memory.items() if end - 512 <= address < end}
            yield key, tuple(frame.registers), stack
            instruction = self.functions[frame.place][frame.slot]
            if instruction.opcode == isa.EXIT:
                result = frames.pop().registers[0]
                if not frames:
                    return
                frames[-1].registers[0] = result
                frames[-1].slot += 1
            elif instruction.opcode == isa.CALL and instruction.src == isa.CALL_LOCAL:
                inner = [0, *frame.registers[1:6], 0, 0, 0, 0, STACK * (len(frames) + 1)]
                memory = {a: b for a, b in memory.items() if a < STACK * len(frames)}
                frames.append(Frame(instruction.imm, (*frame.path, (frame.place, frame.slot)), inner))
            else:
                self.step(thread, frame, instruction, memory, rng)
        raise AssertionError("endless")

    def step(self, thread, frame, instruction, memory, rng):
        for slot in self.replayed.get((frame.place, frame.slot), ()):
            self.execute(thread, frame, self.functions[frame.place][slot], memory, rng)
        frame.slot += 1 + self.execute(thread, frame, instruction, memory, rng)

    def execute(self, thread, frame, instruction, memory, rng):
        """Execute an instruction; return its jump distance."""
        r = frame.registers
        jump = 0
        if instruction.wide:
            if isinstance(instruction.reference, isa.MapReference):
                r[instruction.dst] = self.handle(instruction.reference.map)
            elif instruction.reference is not None:
                base = self.address(self.handle(instruction.reference.map), 0, None)
                r[instruction.dst] = base + instruction.reference.offset
            else:
                r[instruction.dst] = instruction.imm
            jump = 1
        elif instruction.kind in (isa.ALU, isa.ALU64):
            bits = 32 if instruction.kind == isa.ALU else 64
            mask = (1 << bits) - 1
            two = (r[instruction.src] if instruction.from_register else instruction.imm) & mask
            r[instruction.dst] = ARITHMETIC[instruction.operation](r[instruction.dst] & mask, two, bits) & mask
        elif instruction.opcode == isa.CALL:
            self.call(thread, r, instruction.imm, memory, rng)
        elif instruction.opcode == isa.JA:
            jump = instruction.offset
        elif instruction.kind in (isa.JMP, isa.JMP32):
            bits = 32 if instruction.kind == isa.JMP32 else 64
            mask = (1 << bits) - 1
            two = (r[instruction.src] if instruction.from_register else instruction.imm) & mask
            if CONDITIONS[instruction.operation](r[instruction.dst] & mask, two, bits):
                jump = instruction.offset
        else:
            self.access(thread, r, instruction, memory)
        return jump

    def access(self, thread, r, instruction, memory):
        size = instruction.size
        address = r[instruction.src if instruction.kind == isa.LDX else instruction.dst] + instruction.offset
        if instruction.kind == isa.LDX:
            r[instruction.dst] = self.load(thread, address, size, memory)
            return
        value = r[instruction.src] if instruction.kind == isa.STX else instruction.imm
        where = memory if address < VALUES else self.memory
        old = sum(where.get(address + byte, 0) << 8 * byte for byte in range(size))
        if instruction.mode == isa.MODE_ATOMIC:
            if instruction.imm == isa.CMPXCHG:
                value, r[0] = (value if old == r[0] & (1 << 8 * size) - 1 else old), old
            else:
                if instruction.imm & isa.FETCH:
                    r[instruction.src] = old
                value = value if instruction.imm == isa.XCHG else ARITHMETIC[instruction.imm & 0xF0](old, value, 64)
        for byte in range(size):
            where[address + byte] = value >> 8 * byte & 255

    def load(self, thread, address, size, memory):
        if CONTEXT <= address < CONTEXT + context.SIZE:
            name = next(f.name for f in context.FIELDS if f.offset == address - CONTEXT)
            own = {"address": thread.number * 4, "active": 255 >> thread.warp}
            return own.get(name, self.launch[name])
        where = memory if address < VALUES else self.memory
        return sum(where.get(address + byte, 0) << 8 * byte for byte in range(size))

    def call(self, thread, r, number, memory, rng):
        numbers = {
            5: rng.randrange(1 << 20), 8: 7 + thread.block, 14: 77 << 32, 502: rng.randrange(1 << 20),
            506: 0, 509: 7 + thread.block, 510: 3 * thread.block + thread.warp, 511: thread.lane,
            600: 255 >> thread.warp, 601: int(thread.lane == 0), 606: rng.randrange(1 << 20),
            607: thread.number, 608: thread.block, 609: 0,
        }  # fmt: skip
        triples = {
            503: (thread.block, 0, 0), 504: (LANES * WARPS, 1, 1), 508: (BLOCKS, 1, 1),
            505: (thread.warp * LANES + thread.lane, 0, 0),
        }  # fmt: skip
        if number in triples:
            for register, value in zip((1, 2, 3), triples[number], strict=True):
                for byte in range(8):
                    memory[r[register] + byte] = value >> 8 * byte & 255
            r[0] = 0
        elif number == 1:
            spec = self.maps[r[1]]
            key = sum(memory.get(r[2] + byte, 0) << 8 * byte for byte in range(4))
            own = spec.type == MapType.PER_THREAD_ARRAY
            found = key < spec.max_entries and not (own and thread.number >= self.room)
            r[0] = self.address(r[1], key, thread if own else None) if found else 0
        else:
            r[0] = numbers[number]
        r[1:6] = [0xDEAD, 0xDEAD, 0xDEAD, 0xDEAD, 0xDEAD]


def together(machine, order):
    """Run all threads and return their states at each step: {key: {thread: (registers, stack)}}."""
    seen = defaultdict(dict)
    for thread in order:
        for key, registers, stack in machine.steps(thread):
            seen[key][thread] = (registers, stack)
    return seen


def in_step(machine):
    """Run all threads one instruction each in turn, so that all of them load before any of them stores."""
    running = [machine.steps(thread) for thread in THREADS]
    while running:
        running = [each for each in running if next(each, None) is not None]
