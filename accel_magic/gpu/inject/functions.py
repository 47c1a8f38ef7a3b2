"""Names, calls and memory accesses in the functions of a PTX module."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program.context import Operation, Space
from accel_magic.ptx.lexer import WORD
from accel_magic.ptx.ptx_model import (
    Address,
    Declaration,
    Function,
    Immediate,
    Instruction,
    Name,
    Operand,
    Scope,
    instructions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from accel_magic.ptx.ptx_model import Module


@dataclass(frozen=True)
class VisibleNames:
    """Names visible at a place, including those of enclosing scopes.

    Attributes:
        single: (space, type) of registers and variables by name.
        ranges: (count, type) of register ranges by prefix.
        outer: Names of the enclosing scope.

    """

    single: Mapping[str, tuple[str, str]]
    ranges: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    outer: VisibleNames | None = None

    def find(self, name: str) -> tuple[str, str] | None:
        """Return (space, type) of a name; None if it is not declared."""
        scope: VisibleNames | None = self
        while scope is not None:
            if name in scope.single:
                return scope.single[name]
            for prefix, number in _splits(name) if scope.ranges else ():
                count, kind = scope.ranges.get(prefix, (0, ""))
                if number < count:
                    return "reg", kind
            scope = scope.outer
        return None


def _splits(name: str) -> Iterator[tuple[str, int]]:
    """Split a name into a prefix and a number in all possible ways: `%r12` is `%r` 12 or `%r1` 2."""
    digits = len(name) - len(name.rstrip("0123456789"))
    for count in range(digits, 0, -1):
        number = name[-count:]
        if number[0] != "0" or count == 1:
            yield name[:-count], int(number)


def of_module(module: Module) -> VisibleNames:
    """Return the names of a module's variables."""
    return _names(module.variables, None)


def of_function(function: Function, outer: VisibleNames) -> VisibleNames:
    """Return the names of a function's parameters and results (space `param` or `reg`), inside the module's names."""
    return VisibleNames(
        {one.name: (one.space, one.type) for one in (*function.results, *function.parameters)}, {}, outer
    )


def of_scope(scope: Scope, outer: VisibleNames) -> VisibleNames:
    """Return the names declared directly in a scope, inside those of the enclosing scope."""
    declared = [item for item in scope.items if isinstance(item, Declaration)]
    return _names(declared, outer) if declared else outer


def _names(declarations: Iterable[Declaration], outer: VisibleNames | None) -> VisibleNames:
    single, ranges = {}, {}
    for one in declarations:
        for declared in one.names:
            if declared.count is None:
                single[declared.name] = (one.space, one.type)
            else:
                ranges[declared.name] = (declared.count, one.type)
    return VisibleNames(single, ranges, outer)


NAMING: Final = frozenset({"call", "mov", "cvta", "st"})
"""Instructions that may name a function."""
_OF_THE_SYSTEM: Final = frozenset({"vprintf", "malloc", "free", "__assertfail"})
"""Functions of the system, outside all modules, which never call back into a module."""


@dataclass(frozen=True)
class CallGraph:
    """The call graph of a module.

    Attributes:
        direct: Functions that each function names.
        named: By kernel: functions reachable by name, including itself; naming counts as calling.
        kept: Functions whose address a variable of the module holds, and the functions reachable from them.
        blind: Kernels that may call functions in `kept`, through an address or through another module.

    """

    direct: Mapping[str, frozenset[str]]
    named: Mapping[str, frozenset[str]]
    kept: frozenset[str]
    blind: frozenset[str]

    def of(self, kernel: str) -> frozenset[str]:
        """Return all functions that a kernel may reach, including itself."""
        return self.named[kernel] | self.kept if kernel in self.blind else self.named[kernel]

    def users(self, function: str) -> list[str]:
        """Return the kernels that may reach a function."""
        return [kernel for kernel in self.named if function in self.of(kernel)]

    def below(self, function: str) -> frozenset[str]:
        """Return the functions that a function reaches by name, including itself."""
        return _closure([function], self.direct)


def calls(module: Module) -> CallGraph:
    """Build a module's call graph."""
    names = {function.name for function in module.functions}
    direct = {function.name: frozenset(_named(function, names)) for function in module.functions}
    declared = {item.name for item in module.items if isinstance(item, Function)}
    outside = declared - names - _OF_THE_SYSTEM
    blind = {function.name for function in module.functions if _is_blind(function, declared, outside)}
    texts = [module.text[one.start : one.end] for one in module.variables]
    kept = _closure((word for text in texts for word in names.intersection(WORD.findall(text))), direct)
    named = {kernel.name: _closure([kernel.name], direct) for kernel in module.kernels}
    return CallGraph(direct, named, kept, frozenset(kernel for kernel, reached in named.items() if reached & blind))


def _named(function: Function, names: set[str]) -> set[str]:
    return {
        word
        for instruction in (instructions(function.body) if function.body else ())
        if instruction.opcode[0] in NAMING
        for word in names.intersection(WORD.findall(instruction.operand_text))
    }


def _is_blind(function: Function, declared: set[str], outside: set[str]) -> bool:
    """Whether a function calls through an address, or calls a function of another module, which may do so."""
    for instruction in instructions(function.body) if function.body else ():
        if instruction.opcode[0] == "call":
            words = WORD.findall(instruction.operand_text)
            if outside.intersection(words) or not declared.intersection(words):
                return True
    return False


def _closure(start: Iterable[str], direct: Mapping[str, frozenset[str]]) -> frozenset[str]:
    seen, waiting = set[str](), list(start)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += direct.get(name, ())
    return frozenset(seen)


SPACES: Final = {
    "global": Space.GLOBAL,
    "shared": Space.SHARED,
    "local": Space.LOCAL,
    "const": Space.CONST,
    "param": Space.PARAM,
}
_NO_MEMORY: Final = frozenset({Space.PARAM, Space.CONST})
_BYTES: Final = {
    **{f"{kind}{bits}": bits // 8 for kind in "bsuf" for bits in (8, 16, 32, 64, 128)},
    **dict.fromkeys(("bf16", "e4m3x2", "e5m2x2"), 2),
    **dict.fromkeys(("f16x2", "bf16x2", "e4m3x4", "e5m2x4"), 4),
}
"""Bytes of one element of a type."""
_VECTORS: Final = {"v2": 2, "v4": 4, "v8": 8}
_MATRICES: Final = {"x1": 1, "x2": 2, "x4": 4}


@dataclass(frozen=True, slots=True)
class MemoryOperation:
    """A memory operation.

    Attributes:
        operation: Its kind.
        space: The space in the opcode; for copies the space of `address`.
        address: The address that is reported. For copies between global and shared memory, the global one; for tensor
            copies, the tensor map's, since the elements' addresses are not in the instruction.
        size: Bytes per lane for all elements of a vector; a register if the instruction takes the size from one; 0 if
            it is unknown. For matrix loads and stores, the bytes that each lane receives or provides; the sum over the
            lanes is the size of all rows.

    """

    operation: Operation
    space: Space
    address: Address
    size: int | Name


def access(instruction: Instruction) -> MemoryOperation | None:
    """Return the memory operation of an instruction, or None.

    Accesses to parameters and constants, prefetches, and barriers of asynchronous copies do not count as memory
    operations; accesses that the programs should see but cannot are listed by `untraced`.

    Raises:
        ProgramError: The operands cannot be parsed.

    """
    rule = _RULES.get(instruction.opcode[0])
    found = rule(instruction) if rule else None
    return None if found is None or found.space in _NO_MEMORY else found


_NO_ADDRESS: Final = "accesses to textures and surfaces are not traced: the instruction has coordinates, no address"
_NO_LANES: Final = "wmma.load and wmma.store are not traced: PTX does not say which lane accesses which bytes"
_UNTRACED: Final[dict[tuple[str, ...], str]] = {
    **{(name,): _NO_ADDRESS for name in ("tex", "tld4", "suld", "sust", "sured")},
    ("wmma", "load"): _NO_LANES,
    ("wmma", "store"): _NO_LANES,
}
"""Accesses without one address for each lane, to the reason why no program runs before them."""


def untraced(body: Scope) -> list[str]:
    """List the accesses of a function that no program can be told the addresses of, with lines in the PTX."""
    lines: dict[str, list[int]] = {}
    for instruction in instructions(body):
        reason = _UNTRACED.get(instruction.opcode[:1]) or _UNTRACED.get(instruction.opcode[:2])
        if reason:
            lines.setdefault(reason, []).append(instruction.line)
    return [f"{_lines(found)}: {reason}" for reason, found in lines.items()]


_SHOWN: Final = 3
"""Lines that are listed; others are counted."""


def _lines(numbers: list[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:_SHOWN])
    more = f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return f"line{'s' * (len(numbers) > 1)} {shown}{more}"


def _spaces(instruction: Instruction) -> list[Space]:
    bare = (part.partition("::")[0] for part in instruction.opcode[1:])
    return [SPACES[part] for part in bare if part in SPACES]


def _bytes(instruction: Instruction) -> int:
    element = next((_BYTES[part] for part in reversed(instruction.opcode) if part in _BYTES), 0)
    vector = next((_VECTORS[part] for part in instruction.opcode if part in _VECTORS), 1)
    return element * vector


def _addresses(instruction: Instruction) -> list[Address]:
    return [operand for operand in instruction.operands if isinstance(operand, Address)]


def _simple(operation: Operation) -> Callable[[Instruction], MemoryOperation | None]:
    def rule(instruction: Instruction) -> MemoryOperation | None:
        space = next(iter(_spaces(instruction)), Space.GENERIC)
        if space in _NO_MEMORY:
            return None
        size = _size(instruction.operands[1]) if instruction.opcode[1:2] == ("bulk",) else _bytes(instruction)
        return MemoryOperation(operation, space, _addresses(instruction)[0], size)

    return rule


def _matrix(operation: Operation) -> Callable[[Instruction], MemoryOperation | None]:
    def rule(instruction: Instruction) -> MemoryOperation | None:
        count = next((_MATRICES[part] for part in instruction.opcode if part in _MATRICES), 1)
        return MemoryOperation(operation, Space.SHARED, _addresses(instruction)[0], 4 * count)

    return rule


def _multimem(instruction: Instruction) -> MemoryOperation | None:
    kinds = {"ld_reduce": Operation.LOAD, "st": Operation.STORE, "red": Operation.ATOMIC}
    operation = kinds.get(instruction.opcode[1])
    return _simple(operation)(instruction) if operation else None


def _copy(instruction: Instruction) -> MemoryOperation | None:
    spaces, addresses = _spaces(instruction), _addresses(instruction)
    if "prefetch" in instruction.opcode or len(addresses) < 2 or len(spaces) < 2:
        return None
    if "tensor" in instruction.opcode:
        tensor = next((address for address in addresses if address.coordinates), addresses[0])
        return MemoryOperation(Operation.ASYNC_COPY, Space.GENERIC, Address(tensor.base, tensor.offset), 0)
    place = spaces.index(Space.GLOBAL) if Space.GLOBAL in spaces[:2] else 1
    return MemoryOperation(Operation.ASYNC_COPY, spaces[place], addresses[place], _size(instruction.operands[2]))


def _size(operand: Operand) -> int | Name:
    if isinstance(operand, Immediate):
        return int(operand.value)
    return operand if isinstance(operand, Name) else 0


_RULES: Final[dict[str, Callable[[Instruction], MemoryOperation | None]]] = {
    "ld": _simple(Operation.LOAD),
    "ldu": _simple(Operation.LOAD),
    "st": _simple(Operation.STORE),
    "atom": _simple(Operation.ATOMIC),
    "red": _simple(Operation.ATOMIC),
    "ldmatrix": _matrix(Operation.LOAD),
    "stmatrix": _matrix(Operation.STORE),
    "multimem": _multimem,
    "cp": _copy,
}
