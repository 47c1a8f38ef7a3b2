"""Lowering of memory accesses: wide loads, loads, stores and atomic operations, and their addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.codegen.lowering.pointer_analysis import PointerBase
from accel_magic.gpu.program import isa
from accel_magic.gpu.program.isa import Alu, DataReference, MapReference
from accel_magic.gpu.program.sections import context_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.gpu.codegen.lowering.emitter import Emitter
    from accel_magic.gpu.codegen.lowering.pointer_analysis import Pointer
    from accel_magic.gpu.program.isa import EbpfInstruction

_RMW: Final[Mapping[int, str]] = {Alu.ADD: "add", Alu.OR: "or", Alu.AND: "and", Alu.XOR: "xor"}
_PTX: Final[Mapping[str, str]] = {"add": "add.u", "or": "or.b", "and": "and.b", "xor": "xor.b", "xchg": "exch.b"}
_ATOMIC_SIZES: Final = (4, 8)


@dataclass(frozen=True, slots=True)
class LoweredAddress:
    """Address of an access: a typed LLVM pointer, its alignment, and whether only this thread can access it."""

    pointer: str
    align: int
    private: bool


def address(out: Emitter, register: int, access: EbpfInstruction) -> LoweredAddress:
    """Compute the address (register + offset) of an access as precisely as possible."""
    origin, displacement = out.state[register], access.offset
    hint = out.around.pointers.get((out.place, out.slot), "")
    shared = origin.kind is PointerBase.GLOBAL or hint == "map"
    private = not shared and (origin.kind in (PointerBase.STACK, PointerBase.CONTEXT) or hint in ("stack", "context"))
    _note_context(out, origin, access, hint)
    align = origin.alignment(displacement)
    root = out.root(origin, displacement)
    if root is None and origin.kind is PointerBase.STACK:
        # An offset from the frame instead of a plain number: LLVM still knows which memory it is.
        end = out.value("ptrtoint ptr %stack_end to i64")
        distance = out.value(f"sub i64 {out.read(register)}, {end}")
        whole = out.value(f"add i64 {distance}, {displacement}")
        root = out.value(f"getelementptr i8, ptr %stack_end, i64 {whole}")
    if root is not None:
        return LoweredAddress(f"ptr {root}", align, private)
    traits = out.around.traits
    # Global memory has the same addresses as the generic space; a thread's private memory does not.
    kind = f"ptr addrspace({traits.global_})" if shared and traits.global_ else "ptr"
    pointer = out.value(f"inttoptr i64 {out.read(register)} to {kind}")
    if displacement:
        pointer = out.value(f"getelementptr i8, {kind} {pointer}, i64 {displacement}")
    if private and traits.private:
        pointer = out.value(f"addrspacecast ptr {pointer} to ptr addrspace({traits.private})")
        kind = f"ptr addrspace({traits.private})"
    return LoweredAddress(f"{kind} {pointer}", align, private)


def _note_context(out: Emitter, origin: Pointer, access: EbpfInstruction, hint: str) -> None:
    if origin.kind is PointerBase.CONTEXT and origin.offset is not None:
        start = origin.offset + access.offset
        out.context.add((start, start + access.size))
    elif origin.kind in (PointerBase.NUMBER, PointerBase.CONTEXT, PointerBase.ARGUMENT) and hint not in (
        "stack",
        "map",
    ):
        out.context.add((0, context_of(out.around.program).size))


def load_constant(out: Emitter, instruction: EbpfInstruction) -> None:
    """Lower a wide load: a number, a map's handle, or the address of a global variable.

    Raises:
        ProgramError: It refers to a map that does not exist, or in a way that only the Linux kernel supports.

    """
    if instruction.opcode != isa.LD_IMM64 or (instruction.reference is None and instruction.src):
        raise out.unknown(instruction)
    value = _referred(out, instruction)
    out.write(instruction.dst, str(value - ((value & 1 << 63) << 1)))


def _referred(out: Emitter, instruction: EbpfInstruction) -> int:
    reference = instruction.reference
    if reference is None:
        return instruction.imm
    place = out.around.places.get(reference.map)
    if place is None:
        raise ProgramError(
            f"{out.where} refers to the map `{reference.map}`, which the object does not have",
            fix="declare it in the `.maps` section",
            code="gpu.map.undeclared",
        )
    match reference:
        case MapReference():
            return place
        case DataReference():
            return out.around.placement.bases[place] + reference.offset


def load(out: Emitter, instruction: EbpfInstruction) -> None:
    """Lower an instruction of class LDX; MODE_MEMSX sign-extends."""
    extension = {isa.MODE_MEM: "zext", isa.MODE_MEMSX: "sext"}.get(instruction.mode)
    bits = 8 * instruction.size
    if extension is None or (extension == "sext" and bits == 64):
        raise out.unknown(instruction)
    value = load_value(out, instruction)
    if bits < 64:
        value = out.value(f"{extension} i{bits} {value} to i64")
    out.write(instruction.dst, value)


def load_value(out: Emitter, instruction: EbpfInstruction) -> str:
    """Load the bytes without extension."""
    if out.around.pointers.get((out.place, out.slot)) == "object":
        return _load_object(out, instruction)
    at = address(out, instruction.src, instruction)
    return out.value(f"load i{8 * instruction.size}, {at.pointer}, align {min(at.align, instruction.size)}")


def _load_object(out: Emitter, instruction: EbpfInstruction) -> str:
    """Load from an object of the driver; where there is none, zeros are read."""
    at = out.value(f"add i64 {out.read(instruction.src)}, {instruction.offset}")
    out.used.add("declare ptr @accel_object(i64, i64)")
    pointer = out.value(f"call ptr @accel_object(i64 {at}, i64 {instruction.size})")
    return out.value(f"load i{8 * instruction.size}, ptr {pointer}, align 1")


def store_constant(out: Emitter, instruction: EbpfInstruction) -> None:
    """Lower an instruction of class ST."""
    if instruction.mode != isa.MODE_MEM:
        raise out.unknown(instruction)
    bits = 8 * instruction.size
    low = instruction.imm & ((1 << bits) - 1)
    _store(out, instruction, str(low - ((low >> bits - 1) << bits)))


def store(out: Emitter, instruction: EbpfInstruction) -> None:
    """Lower an instruction of class STX: a store, or an atomic operation."""
    if instruction.mode == isa.MODE_ATOMIC:
        _atomic(out, instruction)
    elif instruction.mode == isa.MODE_MEM:
        _store(out, instruction, out.read(instruction.src, 8 * instruction.size))
    else:
        raise out.unknown(instruction)


def _store(out: Emitter, instruction: EbpfInstruction, value: str) -> None:
    at = address(out, instruction.dst, instruction)
    out.do(f"store i{8 * instruction.size} {value}, {at.pointer}, align {min(at.align, instruction.size)}")


def _atomic(out: Emitter, instruction: EbpfInstruction) -> None:
    operation, fetch = instruction.imm & ~isa.FETCH, instruction.imm & isa.FETCH
    if instruction.size not in _ATOMIC_SIZES:
        raise out.unknown(instruction)
    bits = 8 * instruction.size
    operand = out.read(instruction.src, bits)
    if instruction.imm == isa.CMPXCHG:
        out.write(0, _compare_exchange(out, instruction, operand), bits)
        return
    name = "xchg" if instruction.imm == isa.XCHG else _RMW.get(operation)
    if name is None:
        raise out.unknown(instruction)
    old = read_modify_write(out, instruction, name, operand)
    if fetch:
        out.write(instruction.src, old, bits)


def read_modify_write(out: Emitter, instruction: EbpfInstruction, name: str, operand: str) -> str:
    """Change memory at dst + offset atomically.

    Args:
        out: The function being written.
        instruction: The instruction with the address and the size.
        name: LLVM's name of the operation.
        operand: A value of that size.

    Returns:
        The old value, of that size.

    """
    kind, size = f"i{8 * instruction.size}", instruction.size
    at = address(out, instruction.dst, instruction)
    if not at.private and out.around.system and out.around.traits.assembly:
        return _in_assembly(out, at, name, (kind, operand))
    if not at.private:
        return out.value(f"atomicrmw {name} {at.pointer}, {kind} {operand} {out.around.scope} monotonic, align {size}")
    # No other thread can access it, and GPUs have no atomic operations on a thread's private memory.
    old = out.value(f"load {kind}, {at.pointer}, align {min(at.align, size)}")
    new = operand if name == "xchg" else out.value(f"{name} {kind} {old}, {operand}")
    out.do(f"store {kind} {new}, {at.pointer}, align {min(at.align, size)}")
    return old


def _in_assembly(out: Emitter, at: LoweredAddress, name: str, operand: tuple[str, str]) -> str:
    """Write an atomic operation with system scope in PTX: LLVM omits the scope of all but compare-and-swap."""
    kind, value = operand
    space = ".global" if "addrspace(1)" in at.pointer else ""
    register = "l" if kind == "i64" else "r"
    text = f"atom.sys{space}.{_PTX[name]}{kind[1:]} $0, [$1], $2;"
    constraints = f"={register},l,{register},~{{memory}}"
    return out.value(f'call {kind} asm sideeffect "{text}", "{constraints}"({at.pointer}, {kind} {value})')


def _compare_exchange(out: Emitter, instruction: EbpfInstruction, operand: str) -> str:
    kind, size = f"i{8 * instruction.size}", instruction.size
    expected = out.read(0, 8 * size)
    at = address(out, instruction.dst, instruction)
    if not at.private:
        scope = out.around.scope
        pair = out.value(
            f"cmpxchg {at.pointer}, {kind} {expected}, {kind} {operand} {scope} monotonic monotonic, align {size}"
        )
        return out.value(f"extractvalue {{ {kind}, i1 }} {pair}, 0")
    old = out.value(f"load {kind}, {at.pointer}, align {min(at.align, size)}")
    same = out.value(f"icmp eq {kind} {old}, {expected}")
    new = out.value(f"select i1 {same}, {kind} {operand}, {kind} {old}")
    out.do(f"store {kind} {new}, {at.pointer}, align {min(at.align, size)}")
    return old
