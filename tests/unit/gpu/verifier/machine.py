"""An exact eBPF interpreter with memory that faults: a program that the verifier accepts must run without faults."""

from __future__ import annotations

from dataclasses import dataclass, field

from accel_magic.gpu.program import context, isa
from accel_magic.gpu.program.helpers import ARRAYS, HASHES, HELPERS, PER_THREAD, Arg, HelperResult

M64 = (1 << 64) - 1
M32 = (1 << 32) - 1
LONGEST_RUN = 1_000_000
FIELDS = {(one.offset, one.size) for one in context.FIELDS}


class FaultError(Exception):
    """The program did something that programs must not do."""


class LongRunError(Exception):
    """The program executes more instructions than the test allows."""


class Exited(Exception):  # noqa: N818 - gpu_exit ends a run with it
    """gpu_exit was called."""


@dataclass
class Region:
    """Accessible memory.

    `written` has a flag for each byte, or is None if all bytes are initialized; `addresses` has the offsets of stored
    addresses.
    """

    base: int
    data: bytearray
    kind: str
    map: str = ""
    writable: bool = True
    written: bytearray | None = None
    alive: bool = True
    addresses: set = field(default_factory=set)

    def held(self, at, size):
        """Return the offsets of stored addresses that overlap some bytes."""
        return {start for start in self.addresses if start < at + size and at < start + 8}


@dataclass
class Activation:
    function: int
    registers: list
    stack: Region
    back: int = 0


@dataclass
class Arguments:
    """A helper's earlier arguments, needed to check later ones."""

    map: object = None
    key: bytes = b""
    memory: int = 0
    size: int = 0


@dataclass
class Machine:
    """One run of a program with random map contents, context and helper results.

    `watch(machine, place)` is called before each instruction.
    """

    program: object
    maps: tuple
    random: object
    watch: object = None
    windows: dict = field(default_factory=dict)
    values: dict = field(default_factory=dict)
    frames: list = field(default_factory=list)
    records: list = field(default_factory=list)
    accesses: dict = field(default_factory=dict)

    def __post_init__(self):
        self.by_name = {spec.name: spec for spec in self.maps}
        # Handles are outside all memory.
        self.handles = {spec.name: (1 << 62) + 8 * place for place, spec in enumerate(self.maps)}
        self.by_handle = {handle: self.by_name[name] for name, handle in self.handles.items()}

    def region(self, size, kind, *, map_="", alignment=8, writable=True, stack=False, content=None):
        """Make memory in its own address window; its base has exactly the given alignment if that is less than 16."""
        window = self.random.getrandbits(30) | 1 << 30
        while window in self.windows:
            window = self.random.getrandbits(30) | 1 << 30
        base = (window << 32) + 16 * self.random.randrange(1 << 20, 1 << 24) + (alignment if alignment < 16 else 0)
        data = bytearray(content if content is not None else self.random.randbytes(size))
        made = Region(base, data, kind, map_, writable, bytearray(size) if stack else None)
        self.windows[window] = made
        return made

    def find(self, address, size):
        found = self.windows.get(address >> 32)
        if found is None or not found.alive or not found.base <= address <= found.base + len(found.data) - size:
            raise FaultError(f"{size} bytes at {address:#x} are outside all memory")
        return found, address - found.base

    def read(self, address, size):
        found, at = self.find(address, size)
        if found.kind == "context" and (at, size) not in FIELDS:
            raise FaultError(f"{size} bytes at {at} are not a field of the context")
        if found.written is not None and not all(found.written[at : at + size]):
            raise FaultError(f"{size} bytes of stack at {at - 512} were never written")
        if found.addresses and (size, found.held(at, size)) not in ((8, {at}), (size, set())):
            raise FaultError(f"{size} bytes of stack at {at - 512} are part of an address")
        return bytes(found.data[at : at + size])

    def write(self, address, data):
        found, at = self.find(address, len(data))
        if not found.writable:
            raise FaultError(f"{found.kind} {found.map} is read-only")
        found.data[at : at + len(data)] = data
        for start in found.held(at, len(data)):
            found.addresses.discard(start)
            if found.written is not None:
                found.written[start : start + 8] = bytes(8)  # the rest of it is not a number
        if len(data) == 8 and self.is_address(int.from_bytes(data, "little")):
            if found.written is None:
                raise FaultError("an address is stored where others can read it")
            found.addresses.add(at)
        if found.written is not None:
            found.written[at : at + len(data)] = b"\1" * len(data)

    def is_address(self, value):
        return value >> 32 in self.windows or value in self.by_handle

    @property
    def frame(self):
        return self.frames[-1]

    def get(self, register):
        value = self.frame.registers[register]
        if value is None:
            raise FaultError(f"r{register} is not set")
        return value

    def enter(self, function, arguments, back):
        stack = self.region(512, "stack", stack=True, alignment=16)
        registers = [None, *arguments, None, None, None, None, stack.base + 512]
        self.frames.append(Activation(function, registers, stack, back))

    def run(self):
        """Run to the end and return r0."""
        memory = self.region(context.SIZE, "context", writable=False)
        self.context = memory
        self.enter(0, [memory.base, None, None, None, None], 0)
        slot = 0
        for _ in range(LONGEST_RUN):
            place = (self.frame.function, slot)
            code = self.program.functions[place[0]].code
            if not 0 <= slot < len(code) or code[slot] is None:
                raise FaultError(f"instruction {slot} does not exist")
            if self.watch is not None:
                self.watch(self, place)
            try:
                slot = self.step(slot, code[slot])
            except Exited:
                slot = None
            if slot is None:
                if any(one.alive for one in self.records):
                    raise FaultError("a record is still reserved at the end")
                return self.frames[0].registers[0]
        raise LongRunError

    def step(self, slot, one):
        kind = one.kind
        if kind in (isa.ALU, isa.ALU64):
            self.frame.registers[one.dst] = self.calculate(one)
        elif one.opcode == isa.LD_IMM64:
            self.frame.registers[one.dst] = self.constant(one)
            return slot + 2
        elif kind == isa.LDX:
            self.access(slot, self.get(one.src))
            data = self.read((self.get(one.src) + one.offset) & M64, one.size)
            signed = one.mode == isa.MODE_MEMSX
            self.frame.registers[one.dst] = int.from_bytes(data, "little", signed=signed) & M64
        elif kind == isa.ST or (kind == isa.STX and one.mode == isa.MODE_MEM):
            value = one.imm if kind == isa.ST else self.get(one.src)
            self.access(slot, self.get(one.dst))
            data = (value & M64).to_bytes(8, "little")[: one.size]
            self.write((self.get(one.dst) + one.offset) & M64, data)
        elif kind == isa.STX:
            self.access(slot, self.get(one.dst))
            self.atomic(one)
        else:
            return self.jump(slot, one)
        return slot + 1

    def access(self, slot, address):
        found = self.windows.get(address >> 32)
        if found is not None:
            self.accesses.setdefault((self.frame.function, slot), set()).add(found.kind)

    def constant(self, one):
        if isinstance(one.reference, isa.MapReference):
            return self.handles[one.reference.map]
        if isinstance(one.reference, isa.DataReference):
            return self.value_of(one.reference.map, b"").base + one.reference.offset
        return one.imm & M64

    def value_of(self, name, key):
        spec = self.by_name[name]
        if (name, key) not in self.values:
            data = name.startswith(".")
            content = None if spec.initial is None else spec.initial.ljust(spec.value_size, b"\0")
            low_bit = spec.value_size & -spec.value_size
            alignment = 16 if data or low_bit >= 16 else min(low_bit, 8)
            self.values[name, key] = self.region(
                spec.value_size,
                "data" if data else "value",
                map_=name,
                alignment=alignment,
                writable=not name.startswith(".rodata"),
                content=content,
            )
        return self.values[name, key]

    def calculate(self, one):
        bits = 64 if one.kind == isa.ALU64 else 32
        mask = (1 << bits) - 1
        operation = one.operation
        if operation == isa.Alu.END:
            size = one.imm // 8
            swap = one.kind == isa.ALU64 or one.from_register
            data = (self.get(one.dst) & M64).to_bytes(8, "little")[:size]
            return int.from_bytes(data, "big" if swap else "little")
        right = (self.get(one.src) if one.from_register else one.imm) & mask if operation != isa.Alu.NEG else 0
        if operation == isa.Alu.MOV:
            if one.from_register and one.offset:
                return sign(right, one.offset) & mask
            return right if bits == 32 or not one.from_register else self.get(one.src)
        return ARITHMETIC[operation](self.get(one.dst) & mask, right, bits, one.offset) & mask

    def atomic(self, one):
        address = (self.get(one.dst) + one.offset) & M64
        size = one.size
        if address % size:
            raise FaultError("a misaligned atomic")
        old = int.from_bytes(self.read(address, size), "little")
        new = self.get(one.src) & ((1 << 8 * size) - 1)
        if one.imm == isa.CMPXCHG:
            same = old == self.get(0) & ((1 << 8 * size) - 1)
            self.write(address, (new if same else old).to_bytes(size, "little"))
            self.frame.registers[0] = old
            return
        if one.imm != isa.XCHG:
            new = {0x00: old + new, 0x40: old | new, 0x50: old & new, 0xA0: old ^ new}[one.imm & 0xF0]
        self.write(address, (new & ((1 << 8 * size) - 1)).to_bytes(size, "little"))
        if one.imm & isa.FETCH:
            self.frame.registers[one.src] = old

    def jump(self, slot, one):
        if one.opcode in (isa.JA, isa.JA32):
            return slot + 1 + one.distance
        if one.opcode == isa.CALL:
            return self.call(slot, one)
        if one.opcode == isa.EXIT:
            return self.leave()
        bits = 64 if one.kind == isa.JMP else 32
        left, right = self.get(one.dst), self.get(one.src) if one.from_register else one.imm
        mask = (1 << bits) - 1
        left, right = left & mask, right & mask
        taken = CONDITIONS[one.operation](left, right, sign(left, bits), sign(right, bits))
        return slot + 1 + (one.offset if taken else 0)

    def leave(self):
        value = self.frame.registers[0]
        if len(self.frames) == 1:
            if value is None:
                raise FaultError("r0 is not set at the end")
            return None
        gone = self.frames.pop()
        gone.stack.alive = False
        self.frame.registers[0] = value
        return gone.back

    def call(self, slot, one):
        if one.src == isa.CALL_LOCAL:
            if len(self.frames) >= 8:
                raise FaultError("too many functions are active")
            arguments = self.frame.registers[1:6]
            self.frame.registers[:6] = [None] * 6
            self.enter(one.imm, arguments, slot + 1)
            return 0
        helper = HELPERS[one.imm]
        result = self.help(helper)
        if helper.result is HelperResult.NEVER:
            raise Exited
        self.frame.registers[:6] = [result, None, None, None, None, None]
        return slot + 1

    def help(self, helper):
        """Use each argument as its helper would, and return a random result."""
        seen = Arguments()
        for register, wanted in enumerate(helper.arguments, 1):
            if wanted is not Arg.ANY or helper.effect != "print":
                USES[wanted](self, self.get(register), seen)
        if helper.result is HelperResult.VALUE_OR_NULL:
            return self.look_up(seen.map, seen.key)
        if helper.result is HelperResult.RECORD_OR_NULL:
            return self.reserve(seen.map, seen.size)
        return None if helper.result is HelperResult.NOTHING else self.number()

    def use_map(self, value, seen):
        seen.map = self.by_handle.get(value)
        if seen.map is None:
            raise FaultError("the argument is not a map")

    def use_key(self, value, seen):
        seen.key = self.read(value, seen.map.key_size)

    def use_value(self, value, seen):
        self.read(value, seen.map.value_size)

    def use_output(self, value, _seen):
        if value % 8:
            raise FaultError("misaligned output of a helper")
        self.write(value, self.number().to_bytes(8, "little"))

    def use_memory(self, value, seen):
        seen.memory = value

    def use_size(self, value, seen):
        if value >> 29:
            raise FaultError("a huge size")
        if value:
            self.read(seen.memory, value)

    def use_constant(self, value, seen):
        seen.size = value

    def use_record(self, value, _seen):
        self.give_back(value)

    def use_text(self, value, _seen):
        while self.read(value, 1) != b"\0":
            value += 1

    def use_anything(self, _value, _seen):
        """Check nothing."""

    def look_up(self, spec, key):
        if spec.type in HASHES and (spec.name, key) not in self.values and self.random.random() < 0.4:
            return 0
        index = int.from_bytes(key, "little")
        if spec.type in ARRAYS | PER_THREAD and (index >= spec.max_entries or self.random.random() < 0.1):
            return 0
        return self.value_of(spec.name, key).base

    def reserve(self, spec, size):
        if self.random.random() < 0.4:
            return 0
        self.records.append(self.region(size, "record", map_=spec.name))
        return self.records[-1].base

    def give_back(self, address):
        for one in self.records:
            if one.alive and one.base == address:
                one.alive = False
                return
        raise FaultError("the submitted address is not a record")

    def number(self):
        """Return a random 64-bit number, often a small one or an edge case."""
        kind = self.random.random()
        if kind < 0.5:
            return self.random.randrange(70)
        if kind < 0.7:
            return self.random.choice((1 << 31, 1 << 32, 1 << 63, 0, M64, M32)) + self.random.randrange(-2, 3) & M64
        return self.random.getrandbits(self.random.randrange(1, 65))


USES = {
    Arg.MAP: Machine.use_map,
    Arg.KEY: Machine.use_key,
    Arg.VALUE: Machine.use_value,
    Arg.OUT8: Machine.use_output,
    Arg.MEMORY: Machine.use_memory,
    Arg.SIZE: Machine.use_size,
    Arg.SIZE_CONST: Machine.use_constant,
    Arg.RECORD: Machine.use_record,
    Arg.TEXT: Machine.use_text,
    Arg.ANY: Machine.use_anything,
    Arg.CONTEXT: Machine.use_anything,
    Arg.POINTER: Machine.use_anything,
}


def sign(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def divide(left, right, bits, signed):
    if not right:
        return 0
    if not signed:
        return left // right
    left, right = sign(left, bits), sign(right, bits)
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def remainder(left, right, bits, signed):
    if not right:
        return left
    if not signed:
        return left % right
    left, right = sign(left, bits), sign(right, bits)
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


ARITHMETIC = {
    isa.Alu.ADD: lambda a, b, bits, off: a + b,
    isa.Alu.SUB: lambda a, b, bits, off: a - b,
    isa.Alu.MUL: lambda a, b, bits, off: a * b,
    isa.Alu.DIV: divide,
    isa.Alu.OR: lambda a, b, bits, off: a | b,
    isa.Alu.AND: lambda a, b, bits, off: a & b,
    isa.Alu.LSH: lambda a, b, bits, off: a << (b % bits),
    isa.Alu.RSH: lambda a, b, bits, off: a >> (b % bits),
    isa.Alu.NEG: lambda a, b, bits, off: -a,
    isa.Alu.MOD: remainder,
    isa.Alu.XOR: lambda a, b, bits, off: a ^ b,
    isa.Alu.ARSH: lambda a, b, bits, off: sign(a, bits) >> (b % bits),
}
CONDITIONS = {
    isa.Jump.JEQ: lambda a, b, sa, sb: a == b,
    isa.Jump.JNE: lambda a, b, sa, sb: a != b,
    isa.Jump.JGT: lambda a, b, sa, sb: a > b,
    isa.Jump.JGE: lambda a, b, sa, sb: a >= b,
    isa.Jump.JLT: lambda a, b, sa, sb: a < b,
    isa.Jump.JLE: lambda a, b, sa, sb: a <= b,
    isa.Jump.JSGT: lambda a, b, sa, sb: sa > sb,
    isa.Jump.JSGE: lambda a, b, sa, sb: sa >= sb,
    isa.Jump.JSLT: lambda a, b, sa, sb: sa < sb,
    isa.Jump.JSLE: lambda a, b, sa, sb: sa <= sb,
    isa.Jump.JSET: lambda a, b, sa, sb: bool(a & b),
}
