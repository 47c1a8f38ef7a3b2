"""What a PTX module consists of. Every part knows where it lies in the text, which is kept as it is.

Offsets (`start`, `end`) count characters of the module's text; `end` is behind the part's last character. Lines count
from 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Name:
    """A register, special register, variable, function, label or the sink `_`; `%tid.x` is `Name("%tid", "x")`."""

    text: str
    component: str = ""


@dataclass(frozen=True, slots=True)
class Immediate:
    """A number as it is written: `7`, `-1`, `0x1fU`, `0f3F800000`, `(1<<4)`.

    Attributes:
        text: As written.
        value: An int for integers; a float for floating point, NaN and infinities included.
        bits: Bits of a `0f` or `0d` number; None for others.

    """

    text: str
    value: int | float
    bits: int | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`, or with coordinates `[base, {x, y}]` of tensors and textures.

    Attributes:
        base: A register, a variable, or a number; of a texture with a sampler the texture.
        offset: Bytes to add, signed.
        coordinates: What comes behind a comma.

    """

    base: Name | Immediate
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b}`; also the targets of `.branchtargets` and the values of an initialiser."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`a|b`: two results."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p` of a predicate, `-x` of a register."""

    operand: Operand
    sign: str = "!"


@dataclass(frozen=True, slots=True)
class Group:
    """`(a, b)` of a call: results or arguments."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class SymbolValue:
    """A constant that a linker fills in: `sym+4`, `generic(sym)+4`, `0xFF(sym)`.

    Attributes:
        symbol: The variable or function.
        offset: Bytes to add.
        generic: Whether the generic address is meant.
        mask: Which byte of the address is taken, as a mask; None for all.

    """

    symbol: str
    offset: int = 0
    generic: bool = False
    mask: int | None = None


Operand = Name | Immediate | Address | Vector | Pair | Negated | Group | SymbolValue


@dataclass(frozen=True, slots=True)
class Predicate:
    """The guard `@p` or `@!p` of an instruction."""

    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Location:
    """What a `.loc` says: a line of source, and where it was inlined.

    Attributes:
        file: Path from `.file`; "" where the module does not name it.
        line: Line, from 1; 0 for code that no line stands for.
        column: Column, from 1; 0 where it is not known.
        function: Inlined function's label, as written; "" if not inlined.
        inlined_at: The place of the call.

    """

    file: str
    line: int
    column: int = 0
    function: str = ""
    inlined_at: Location | None = None


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        opcode: Its parts: `("ld", "global", "v4", "f32")`.
        predicate: Its guard.
        operand_text: Everything between opcode and semicolon, comments removed.
        line: Line in the PTX.
        location: Line of source, if known.

    """

    opcode: tuple[str, ...]
    predicate: Predicate | None
    operand_text: str
    start: int
    end: int
    line: int
    location: Location | None = None

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """Operands in the order of the text.

        Raises:
            ProgramError: They are no PTX.

        """
        from accel_magic.gpu.ptx.operands import parse_operands

        return parse_operands(self.operand_text, self.line)

    @property
    def name(self) -> str:
        """The opcode as one word."""
        return ".".join(self.opcode)


@dataclass(frozen=True, slots=True)
class Label:
    """`name:`."""

    name: str
    start: int
    end: int
    line: int


@dataclass(frozen=True, slots=True)
class Declared:
    """One name of a declaration.

    Attributes:
        name: The variable, or the prefix of a range of registers.
        count: Registers of a range `%r<4>`: `%r0` to `%r3`; None for a single name.
        dimensions: Of an array; None for a size that is left open.
        initial: Its initial value, arrays nested as written; None without one.

    """

    name: str
    count: int | None = None
    dimensions: tuple[int | None, ...] = ()
    initial: Operand | None = None


@dataclass(frozen=True, slots=True)
class Declaration:
    """Registers or variables.

    Attributes:
        space: `reg`, `global`, `const`, `shared`, `local`, `param`, `tex`.
        type: `b32`, `pred`, `f16x2`, ...
        names: What is declared.
        align: Bytes; 0 where it does not say.
        vector: Elements of `.v2`, `.v4`; 1 of others.
        linkage: `extern`, `visible`, `weak`, `common`, or "".
        attributes: Other directives in it, `.attribute(.managed)` for one.

    """

    space: str
    type: str
    names: tuple[Declared, ...]
    start: int
    end: int
    line: int
    align: int = 0
    vector: int = 1
    linkage: str = ""
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Directive:
    """Anything else that begins with a dot, kept as text.

    Attributes:
        name: `.version`, `.loc`, `.pragma`, `.branchtargets`, `.section`, ...
        text: All of it.

    """

    name: str
    text: str
    start: int
    end: int
    line: int


@dataclass(frozen=True)
class Scope:
    """`{ ... }`; `start` is at the opening brace, `end` behind the closing one."""

    items: tuple[Statement, ...]
    start: int
    end: int
    line: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter or result of a function.

    Attributes:
        name: As written; "" for a prototype's `_`.
        space: `param` or `reg`.
        type: `b64`, `u32`, ...
        align: Bytes; 0 where it does not say.
        dimensions: Of an array of bytes: a struct by value.
        pointer: What it points to, as `.ptr` says: `global`, `shared`, `const`, `local`, "generic", or "".
        pointer_align: Alignment of that.

    """

    name: str
    space: str
    type: str
    align: int = 0
    dimensions: tuple[int | None, ...] = ()
    pointer: str = ""
    pointer_align: int = 0


@dataclass(frozen=True)
class Function:
    """An entry or a device function.

    Attributes:
        name: As PTX names it.
        entry: Whether it is a kernel.
        linkage: `visible`, `extern`, `weak`, or "".
        results: Results of a device function.
        parameters: Parameters.
        directives: What stands between parameters and body: `(".maxntid 128, 1, 1", ".noreturn")`.
        body: None of a declaration.
        header_end: Where the header ends: at the brace or the semicolon.

    """

    name: str
    entry: bool
    linkage: str
    results: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]
    directives: tuple[str, ...]
    body: Scope | None
    start: int
    header_end: int
    end: int
    line: int


Statement = Label | Instruction | Declaration | Directive | Scope
TopLevel = Function | Declaration | Directive | Label


@dataclass(frozen=True)
class Module:
    """A whole module.

    Attributes:
        text: What was parsed.
        version: PTX ISA: (8, 3).
        target: What follows `.target`: ("sm_90a", "debug").
        address_size: 64 or 32.
        items: Everything, in order.
        files: Paths by the numbers of `.file`.

    """

    text: str
    version: tuple[int, int]
    target: tuple[str, ...]
    address_size: int
    items: tuple[TopLevel, ...]
    files: dict[int, str] = field(default_factory=dict)

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Entries and device functions with a body, in order."""
        return tuple(item for item in self.items if isinstance(item, Function) and item.body is not None)

    @cached_property
    def kernels(self) -> tuple[Function, ...]:
        """Entries."""
        return tuple(function for function in self.functions if function.entry)

    @cached_property
    def variables(self) -> tuple[Declaration, ...]:
        """Variables of the module."""
        return tuple(item for item in self.items if isinstance(item, Declaration))


def walk(scope: Scope) -> Iterator[Statement]:
    """Give all statements of a scope and the scopes in it, in the order of the text; scopes before what is in them."""
    for item in scope.items:
        yield item
        if isinstance(item, Scope):
            yield from walk(item)


def instructions(scope: Scope) -> Iterator[Instruction]:
    """Give all instructions of a scope and the scopes in it, in the order of the text."""
    return (item for item in walk(scope) if isinstance(item, Instruction))
