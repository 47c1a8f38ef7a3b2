"""A probe's PTX as a template: its body, to be copied to any number of places, and what all copies share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu import context
from accel_magic.gpu.ptx.lexer import without_comments
from accel_magic.gpu.ptx.model import Address, Declaration, Directive, Function, Instruction, Label, Module, Name, Scope
from accel_magic.gpu.ptx.parser import parse
from accel_magic.gpu.ptx.registers import Names, of_function, of_module, of_scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from accel_magic.gpu.ptx.model import Declared, Statement
    from accel_magic.gpu.ptx.probe import ProbeCode

_WORD: Final = re.compile(r"\"[^\"\n]*\"|[A-Za-z_$%][\w$%]*")
_COPY: Final = "\x01"
_VALUE: Final = "\x02{}\x03"
_DEFINED: Final = {"global", "const", "shared"}
_DROPPED: Final = frozenset({".loc", ".file", ".section", "@@DWARF"})


@dataclass(frozen=True)
class Template:
    """A probe, prepared.

    Attributes:
        shared: What goes once into the module: variables and functions that the probe uses.
        local: Declarations that go once into each function that has copies: the probe's stack.
        body: The copy, with marks for its number and for the values of its parameters.
        uses: Parameters that the probe reads.
        statements: Instructions in one copy.
        version: PTX ISA that the probe's module names.
        target: Number of the architecture it names: 90 for sm_90a.

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
            number: Different for each copy in a module.
            values: What each of the used parameters is: a number, or a register of the kernel.

        """
        text = self.body.replace(_COPY, str(number))
        for name in self.uses:
            text = text.replace(_VALUE.format(name), values[name])
        return text


def prepare(probe: ProbeCode, tag: str) -> Template:
    """Make a template.

    Args:
        probe: The compiled probe.
        tag: What all its names get in front; no name in the kernel's module has it.

    Raises:
        ProgramError: The probe is not as it has to be.

    """
    module = parse(probe.text)
    function = next((one for one in module.functions if one.name == probe.name), None)
    if function is None or function.body is None:
        raise _not_as_agreed(probe, "the function is not in its PTX")
    if len(function.parameters) != len(context.PARAMETERS) or function.results:
        raise _not_as_agreed(probe, f"it has {len(function.parameters)} parameters, not {len(context.PARAMETERS)}")
    return _Writer(probe, module, function, function.body, tag).template()


def _not_as_agreed(probe: ProbeCode, why: str) -> ProgramError:
    return ProgramError(
        f"the compiled program {probe.name} cannot be put into kernels",
        why=why,
        fix="please report this with the program",
        code="gpu.ptx.not-insertable",
    )


class _Writer:
    """Writes a probe's text anew, with other names."""

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
        target = re.match(r"sm_(\d+)", self._module.target[0])
        return Template(
            "\n".join(self._shared()),
            "\n".join(self._stack),
            body,
            frozenset(self._uses),
            self._statements,
            self._module.version,
            int(target[1]) if target else 0,
        )

    def _own_names(self, scope: Scope) -> dict[str, str]:
        """New names of registers, labels and the stack; names of parameters of calls stay, their scopes hide others."""
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
        """Give (old, new) of a name, or of all names of a range and of its prefix."""
        new = f"%{self._tag}_{one.name.lstrip('%')}" if space == "reg" else f"{self._tag}_{one.name}"
        yield one.name, new
        for number in range(one.count or 0):
            yield f"{one.name}{number}", f"{new}{number}"

    def _scope(self, scope: Scope, names: Mapping[str, str], around: Names) -> Iterator[str]:
        known = of_scope(scope, around)
        for item in scope.items:
            if isinstance(item, Scope):
                yield "{"
                yield from self._scope(item, names, known)
                yield "}"
            else:
                yield from self._statement(item, names, known)

    def _statement(self, item: Statement, names: Mapping[str, str], known: Names) -> Sequence[str]:
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

    def _instruction(self, item: Instruction, names: Mapping[str, str], known: Names) -> Sequence[str]:
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

    def _parameter(self, item: Instruction, address: Address, names: Mapping[str, str], known: Names) -> Sequence[str]:
        """Take a parameter, or a part of it, from the kernel's operand instead of from parameter memory."""
        result, (name, size) = item.operands[0], self._parameters[str(getattr(address.base, "text", ""))]
        kind = item.opcode[-1]
        bits = re.fullmatch(r"[bus](8|16|32|64)", kind)
        register = known.find(result.text) if isinstance(result, Name) else None
        if item.predicate or not bits or register is None or not isinstance(result, Name):
            raise _not_as_agreed(self._probe, f"it reads a parameter in a way that is not known: {item.name}")
        self._uses.add(name)
        target, width = names[result.text], int(bits[1])
        if not 0 <= 8 * address.offset <= 8 * size - width:
            raise _not_as_agreed(self._probe, f"it reads behind the parameter {name}")
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
    """Names of variables and functions that the module itself defines."""
    defined = {one.name for one in module.functions}
    for item in module.items:
        if isinstance(item, Declaration) and item.space in _DEFINED and item.linkage != "extern":
            yield from (declared.name for declared in item.names)
        elif isinstance(item, Function) and item.name in defined:
            yield item.name


def _rename(text: str, names: Mapping[str, str]) -> str:
    return _WORD.sub(lambda word: names.get(word[0], word[0]), text)
