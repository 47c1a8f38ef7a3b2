"""Compiled programs as templates for insertion into kernels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.inject.components import components, member_mask
from accel_magic.gpu.inject.functions import SPACES, VisibleNames, of_function, of_module, of_scope
from accel_magic.gpu.program import context
from accel_magic.gpu.program.context import Operation, Space
from accel_magic.gpu.program.sections import Where
from accel_magic.ptx.lexer import without_comments
from accel_magic.ptx.parser import parse
from accel_magic.ptx.ptx_model import (
    Address,
    Declaration,
    Directive,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Name,
    Scope,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from accel_magic.gpu.inject.sites import FoundSite
    from accel_magic.ptx.ptx_model import Declared, Operand, Statement


@dataclass(frozen=True, slots=True)
class ProbeCode:
    """A probe in PTX.

    Attributes:
        name: Name of its function, which has the parameters `context.PARAMETERS` and no result.
        text: A complete PTX module that defines the function and everything that it uses.

    """

    name: str
    text: str


_WORD: Final = re.compile(r"\"[^\"\n]*\"|[A-Za-z_$%][\w$%]*")
_COPY: Final = "\x01"
_VALUE: Final = "\x02{}\x03"
_DEFINED: Final = {"global", "const", "shared"}
_DROPPED: Final = frozenset({".loc", ".file", ".section", "@@DWARF"})


@dataclass(frozen=True)
class Template:
    """A probe prepared for insertion.

    Attributes:
        shared: Variables and functions that the probe uses, inserted once per module.
        local: Declarations of the probe's stack, inserted once per function with copies.
        body: The copy, with placeholders for its number and for the values of its parameters.
        uses: Parameters that the probe reads.
        statements: Number of instructions in one copy.
        version: PTX ISA version of the probe's module.
        target: Architecture number of the probe's module: 90 for sm_90a.

    """

    shared: str
    local: str
    body: str
    uses: frozenset[str]
    statements: int
    version: tuple[int, int]
    target: int

    def copy(self, number: int, values: Mapping[str, str]) -> str:
        """Write one copy.

        Args:
            number: A number unique to each copy in a module.
            values: Values of the used parameters: numbers, or registers of the kernel.

        """
        text = self.body.replace(_COPY, str(number))
        for name in self.uses:
            text = text.replace(_VALUE.format(name), values[name])
        return text


def prepare(probe: ProbeCode, tag: str) -> Template:
    """Make a template.

    Args:
        probe: The compiled probe.
        tag: Prefix for all its names; no name in the kernel's module has it.

    Raises:
        ProgramError: The probe does not have the expected form.

    """
    module = parse(probe.text)
    function = next((one for one in module.functions if one.name == probe.name), None)
    if function is None or function.body is None:
        raise _not_as_agreed(probe, "the function is not in its PTX")
    if len(function.parameters) != len(context.PARAMETERS) or function.results:
        raise _not_as_agreed(probe, f"it has {len(function.parameters)} parameters, not {len(context.PARAMETERS)}")
    return _Writer(probe, module, function, function.body, tag).template()


@dataclass(frozen=True)
class Entry:
    """A program for whole blocks, prepared as a kernel of its own in another module.

    Attributes:
        name: Its new name.
        text: The kernel, and the variables and functions that it uses.
        version: PTX ISA version of its module.
        target: Architecture number of its module.

    """

    name: str
    text: str
    version: tuple[int, int]
    target: int


def prepare_entry(probe: ProbeCode, tag: str) -> Entry:
    """Rename a compiled program for whole blocks.

    Args:
        probe: The compiled program, a kernel.
        tag: Prefix for all its names; no name in the other module has it.

    Raises:
        ProgramError: It is not a kernel with the parameters of `context.BLOCK`.

    """
    module = parse(probe.text)
    kernel = next((one for one in module.kernels if one.name == probe.name), None)
    expected = len(context.BLOCK.parameters) + 1
    if kernel is None or len(kernel.parameters) != expected:
        raise _not_as_agreed(probe, f"it is not a kernel with {expected} parameters")
    names = {name: f"{tag}_{name}" for name in _module_names(module)}
    items = [item for item in module.items if not isinstance(item, Directive | Label)]
    text = "\n".join(_rename(without_comments(module.text[item.start : item.end]), names) for item in items)
    return Entry(names[probe.name], text, module.version, _architecture(module))


def _architecture(module: Module) -> int:
    target = re.match(r"sm_(\d+)", module.target[0])
    return int(target[1]) if target else 0


def _not_as_agreed(probe: ProbeCode, why: str) -> ProgramError:
    return ProgramError(
        f"the compiled program {probe.name} cannot be inserted into kernels",
        why=why,
        fix="report this defect and include the program",
        code="gpu.ptx.not-insertable",
    )


class _Writer:
    """Rewrites a probe's text with new names."""

    def __init__(self, probe: ProbeCode, module: Module, function: Function, body: Scope, tag: str) -> None:
        self._probe, self._module, self._function, self._body, self._tag = probe, module, function, body, tag
        self._parameters = {
            one.name: (name, size) for one, (name, size) in zip(function.parameters, context.PARAMETERS, strict=True)
        }
        self._uses: set[str] = set()
        self._statements = 0
        self._stack: list[str] = []
        self._global = {name: f"{tag}_{name}" for name in _module_names(module)}

    def template(self) -> Template:
        names = {**self._global, **self._own_names(self._body)}
        around = of_function(self._function, of_module(self._module))
        lines = list(self._scope(self._body, names, around))
        body = "\n".join(["{", f".reg .b64 %{self._tag}_value;", *lines, f"${self._tag}_{_COPY}_end:", "}"])
        return Template(
            "\n".join(self._shared()),
            "\n".join(self._stack),
            body,
            frozenset(self._uses),
            self._statements,
            self._module.version,
            _architecture(self._module),
        )

    def _own_names(self, scope: Scope) -> dict[str, str]:
        """New names of registers, labels and the stack. Call parameters keep theirs: their scopes hide other names."""
        names = {}
        for item in scope.items:
            if isinstance(item, Label):
                names[item.name] = f"${self._tag}_{_COPY}_{item.name.lstrip('$%')}"
            elif isinstance(item, Declaration) and item.space in {"reg", "local"}:
                names.update(pair for one in item.names for pair in self._renamed(one, item.space))
            elif isinstance(item, Scope):
                names.update(self._own_names(item))
        return names

    def _renamed(self, one: Declared, space: str) -> Iterator[tuple[str, str]]:
        """Yield (old, new) for a name, or for a register range: its prefix and all its names."""
        new = f"%{self._tag}_{one.name.lstrip('%')}" if space == "reg" else f"{self._tag}_{one.name}"
        yield one.name, new
        for number in range(one.count or 0):
            yield f"{one.name}{number}", f"{new}{number}"

    def _scope(self, scope: Scope, names: Mapping[str, str], around: VisibleNames) -> Iterator[str]:
        known = of_scope(scope, around)
        for item in scope.items:
            if isinstance(item, Scope):
                yield "{"
                yield from self._scope(item, names, known)
                yield "}"
            else:
                yield from self._statement(item, names, known)

    def _statement(self, item: Statement, names: Mapping[str, str], known: VisibleNames) -> Sequence[str]:
        if isinstance(item, Instruction):
            self._statements += 1
            return self._instruction(item, names, known)
        if isinstance(item, Directive) and item.name in _DROPPED:
            return ()
        text = _rename(self._text(item.start, item.end), names)
        if isinstance(item, Declaration) and item.space in {"local", "shared"}:
            self._stack.append(text)
            return ()
        return (text,)

    def _text(self, start: int, end: int) -> str:
        return without_comments(self._module.text[start:end])

    def _instruction(self, item: Instruction, names: Mapping[str, str], known: VisibleNames) -> Sequence[str]:
        if item.opcode[0] == "ret":
            last = item is self._body.items[-1] and item.predicate is None
            return () if last else (f"{self._guard(item, names)}bra ${self._tag}_{_COPY}_end;",)
        if item.opcode[:2] == ("ld", "param"):
            address = item.operands[1]
            if (
                isinstance(address, Address)
                and isinstance(address.base, Name)
                and address.base.text in self._parameters
            ):
                return self._parameter(item, address, names, known)
        elif any(word in self._parameters for word in _WORD.findall(item.operand_text)):
            raise _not_as_agreed(self._probe, f"it takes a parameter's address: {item.name} {item.operand_text}")
        return (_rename(self._text(item.start, item.end), names),)

    def _guard(self, item: Instruction, names: Mapping[str, str]) -> str:
        if item.predicate is None:
            return ""
        return f"@{'!' * item.predicate.negated}{names.get(item.predicate.name, item.predicate.name)} "

    def _parameter(
        self, item: Instruction, address: Address, names: Mapping[str, str], known: VisibleNames
    ) -> Sequence[str]:
        """Replace a load of a parameter, or of part of it, by code that uses the kernel's operand."""
        result, (name, size) = item.operands[0], self._parameters[str(getattr(address.base, "text", ""))]
        kind = item.opcode[-1]
        bits = re.fullmatch(r"[bus](8|16|32|64)", kind)
        register = known.find(result.text) if isinstance(result, Name) else None
        if item.predicate or not bits or register is None or not isinstance(result, Name):
            raise _not_as_agreed(self._probe, f"it reads a parameter in an unsupported way: {item.name}")
        self._uses.add(name)
        target, width = names[result.text], int(bits[1])
        if not 0 <= 8 * address.offset <= 8 * size - width:
            raise _not_as_agreed(self._probe, f"it reads outside the parameter {name}")
        if width == 8 * size and not address.offset and register[1][1:] == bits[1]:
            return (f"mov.b{width} {target}, {_VALUE.format(name)};",)
        value = f"%{self._tag}_value"
        first = [f"mov.b64 {value}, {_VALUE.format(name)};"]
        if size == 4:
            low = f"%{self._tag}_low"
            first = ["{", f".reg .b32 {low};", f"mov.b32 {low}, {_VALUE.format(name)};", f"cvt.u64.u32 {value}, {low};"]
            first.append("}")
        shift = 64 - width
        return (
            *first,
            f"shl.b64 {value}, {value}, {max(0, shift - 8 * address.offset)};",
            f"shr.{'s' if kind[0] == 's' else 'u'}64 {value}, {value}, {shift};",
            f"cvt.u{register[1][1:]}.u64 {target}, {value};"
            if register[1][1:] != "64"
            else f"mov.b64 {target}, {value};",
        )

    def _shared(self) -> Iterator[str]:
        for item in self._module.items:
            if isinstance(item, Directive | Label) or (isinstance(item, Function) and item.name == self._probe.name):
                continue
            yield _rename(self._text(item.start, item.end), self._global)


def _module_names(module: Module) -> Iterator[str]:
    """Names of variables and functions that the module defines."""
    defined = {one.name for one in module.functions}
    for item in module.items:
        if isinstance(item, Declaration) and item.space in _DEFINED and item.linkage != "extern":
            yield from (declared.name for declared in item.names)
        elif isinstance(item, Function) and item.name in defined:
            yield item.name


def _rename(text: str, names: Mapping[str, str]) -> str:
    return _WORD.sub(lambda word: names.get(word[0], word[0]), text)


_WORD_MASK: Final = (1 << 64) - 1
_LANES: Final = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Values:
    """Values of the parameters at a place.

    Attributes:
        code: Instructions that compute them; they do not change the kernel's registers.
        after: The same, to run after the instruction.
        values: By parameter: a number or a register.
        registers: (type, name) of registers that `code` and `after` write.
        guard: The predicate that the copy must run under, such as `%p1` or `!%p1`; "" for none.

    """

    code: tuple[str, ...]
    after: tuple[str, ...]
    values: dict[str, str]
    registers: tuple[tuple[str, str], ...]
    guard: str


def values(found: FoundSite, site: int, kernel: int, *, tag: str, uses: Collection[str], saved: str = "") -> Values:
    """Return the values of the parameters at a place.

    At a branch, `address` is 1 in the lanes that take it and 0 in the others; at an indexed branch, it is the index.

    Args:
        found: The place.
        site: Its number.
        kernel: Its kernel's number.
        tag: Prefix of new registers.
        uses: Parameters that the probes read; no code is generated for others.
        saved: Suffix of new registers that save all values for later; "" if the copy follows directly.

    Raises:
        ProgramError: An operand is not declared.

    """
    access = found.access
    numbers = {
        "address": "0",
        "size": "0",
        "space": str(int(access.space if access else Space.GENERIC)),
        "operation": str(int(access.operation if access else Operation.NONE)),
        "site": str(site),
        "kernel": str(kernel),
        "mask": "0",
    }
    value = components(found, tag=tag, uses=uses, saved=saved)
    maker = _Maker(found.names, tag, saved)
    if access and "address" in uses:
        numbers["address"] = maker.address(access.address, access.space)
    if access and "size" in uses:
        numbers["size"] = str(access.size) if isinstance(access.size, int) else maker.number("size", access.size, 32)
    if found.where is Where.BRANCH and "address" in uses:
        numbers["address"] = maker.taken(found)
    if "mask" in uses and found.where is Where.SYNC and (mask := member_mask(found.instruction)) is not None:
        numbers["mask"] = maker.mask(mask)
    guard = maker.guard(found)
    later = found.where is Where.LOADED
    return Values(
        (*maker.code, *(() if later else value.code)),
        value.code if later else (),
        numbers | value.values,
        (*maker.registers, *value.registers),
        guard,
    )


class _Maker:
    """Collects code and the registers that it needs."""

    def __init__(self, names: VisibleNames, tag: str, saved: str) -> None:
        self.code: list[str] = []
        self.registers: list[tuple[str, str]] = []
        self._names, self._tag, self._saved = names, tag, saved

    def _new(self, kind: str, name: str) -> str:
        register = f"%{self._tag}_{name}{self._saved}"
        self.registers.append((kind, register))
        return register

    def _width(self, name: Name) -> int:
        """Bits of a register; 0 if the name is not a register."""
        found = self._names.find(name.text)
        if found is None:
            raise ProgramError(
                f"{name.text} is not declared", why=f"{name.text} is not declared", code="gpu.ptx.undeclared"
            )
        bits = re.fullmatch(r"[busf](16|32|64)", found[1])
        return int(bits[1]) if found[0] == "reg" and bits else 0

    def number(self, what: str, name: Name, bits: int) -> str:
        """Return a register with a number of bits and the value of another register."""
        width = self._width(name)
        if width == bits and not self._saved:
            return name.text
        register = self._new(f"b{bits}", what)
        same = f"mov.b{bits} {register}, {name.text};"
        self.code.append(same if width == bits else f"cvt.u{bits}.u{width} {register}, {name.text};")
        return register

    def address(self, address: Address, space: Space) -> str:
        base, offset = address.base, address.offset
        if isinstance(base, Immediate):
            return str((int(base.value) + offset) & _WORD_MASK)
        register = self.number("address", base, 64) if self._width(base) else self._symbol(base, space)
        if not offset:
            return register
        if register == base.text:
            register = self._new("b64", "address")
            self.code.append(f"add.s64 {register}, {base.text}, {offset};")
        else:
            self.code.append(f"add.s64 {register}, {register}, {offset};")
        return register

    def _symbol(self, name: Name, space: Space) -> str:
        found = self._names.find(name.text)
        kind = found[0] if found else ""
        register = self._new("b64", "address")
        generic = space is Space.GENERIC and kind in SPACES
        self.code.append(f"{f'cvta.{kind}.u64' if generic else 'mov.u64'} {register}, {name.text};")
        return register

    def mask(self, operand: Operand) -> str:
        if isinstance(operand, Name):
            return self.number("mask", operand, 32)
        return str(int(operand.value) & _LANES) if isinstance(operand, Immediate) else "0"

    def taken(self, found: FoundSite) -> str:
        instruction = found.instruction
        if instruction is None:
            return "0"
        if instruction.opcode[0] == "brx":
            index = instruction.operands[0]
            return self.number("address", index, 64) if isinstance(index, Name) else "0"
        register = self._new("b64", "address")
        predicate = instruction.predicate
        if predicate is not None:
            chosen = "0, 1" if predicate.negated else "1, 0"
            self.code.append(f"selp.b64 {register}, {chosen}, {predicate.name};")
        return register

    def guard(self, found: FoundSite) -> str:
        instruction = found.instruction
        # All lanes execute a conditional branch, including those that do not take it.
        if instruction is None or instruction.predicate is None:
            return ""
        if found.where is Where.BRANCH and instruction.opcode[0] == "bra":
            return ""
        name = instruction.predicate.name
        if self._saved:
            name = self._new("pred", "guard")
            self.code.append(f"mov.pred {name}, {instruction.predicate.name};")
        return f"{'!' * instruction.predicate.negated}{name}"
