"""Translate bpftrace expressions to filters and columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from accel_magic.probes.bpftrace.script_parser import (
    Cast,
    Expression,
    Map,
    Member,
    ScriptCall,
    ScriptNumber,
    ScriptOperation,
    ScriptVariable,
    String,
    Unread,
    Word,
)
from accel_magic.probes.captures import ARGUMENT_NAMES, DEFAULT_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BEGAN: Final = Word("@began")
DURATION: Final = Word("@duration")
"""Start time and duration of a measured call, which scripts compute from `nsecs` in two places."""

CLOCKS: Final = ("nsecs", "elapsed")
_COLUMNS: Final = {
    **{name: name for name in ("pid", "tid", "cpu", "comm", "probe", "retval")},
    "func": "function",
    **dict.fromkeys((*CLOCKS, BEGAN.name), "time_ns"),
    DURATION.name: "duration_ns",
}
STACKS: Final = {"kstack": "kernel", "ustack": "user"}
_NAMES: Final = {"pid", "tid", "cpu", "comm", "retval", *ARGUMENT_NAMES}
_SIGNS: Final = {"&&": "and", "||": "or"}
_PLAIN_SIGNS: Final = ("==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "&", "|", "^")
_BY_CONSTANT: Final = ("/", "%", "<<", ">>")
_TYPES: Final = {"bool": "u8", "char": "s8", "short": "s16", "int": "s32", "unsigned": "u32", "long": "s64"}
_INTEGER: Final = re.compile(r"(?P<unsigned>u?)int(?P<bits>8|16|32|64)(?:_t)?|(?P<short>[us](?:8|16|32|64))")
_STRUCT: Final = re.compile(r"(?:const )?(?:struct|union) (?P<name>\w+) \*")
_SHOWN_BY: Final = {"usym": "symbols", "ksym": "symbols", "ntop": "addresses as text", "strftime": "dates"}
_TEXT_CALLS: Final = {
    **dict.fromkeys(("open", "openat"), ("open", 0)),
    **dict.fromkeys(("execve", "unlink", "rmdir", "mkdir", "chdir", "stat", "newstat", "statfs", "access"), ("", 0)),
    **dict.fromkeys(("unlinkat", "mkdirat", "newfstatat", "faccessat"), ("", 1)),
}
"""System calls with a text argument: the C library function (if its name differs) and the argument's position."""


class LackingError(Exception):
    """A part has no equivalent; the text names it and the closest alternative."""


@dataclass(frozen=True)
class Scene:
    """The context of an expression, which determines what its names mean.

    Attributes:
        variables: `$name`s assigned earlier, resolved.
        stored: Maps that a call's entry filled for its return, resolved.
        measured: The probe is a call that is measured from entry to return.
        syscall: Name of the system call that the tracepoint belongs to; '' for other probes.
        is_tracepoint: `args` are fields, which are always columns.

    """

    variables: Mapping[str, Expression] = field(default_factory=dict)
    stored: Mapping[str, Expression] = field(default_factory=dict)
    measured: bool = False
    syscall: str = ""
    is_tracepoint: bool = False


@dataclass(frozen=True)
class ColumnExpression:
    """A pandas column: `text` is an expression, `name` the column's name if the expression is just a column."""

    text: str
    name: str = ""


@dataclass
class RequestedColumns:
    """Captures and stacks that the line must request to get the columns."""

    captures: dict[str, str] = field(default_factory=dict)
    stacks: dict[str, None] = field(default_factory=dict)

    def capture(self, requested: str, source: str) -> ColumnExpression:
        """Request `source` as a column, named `requested` if that name is free."""
        for name, taken in self.captures.items():
            if taken == source:
                return _plain(name)
        name = requested if re.fullmatch(r"[A-Za-z_]\w*", requested) and requested not in DEFAULT_COLUMNS else ""
        name = name or re.sub(r"\W+", "_", source.partition(":")[0]).strip("_") or "value"
        while name in self.captures or name in DEFAULT_COLUMNS:
            name += "_"
        self.captures[name] = source
        return _plain(name)


def resolve(expression: Expression, scene: Scene) -> Expression:  # noqa: PLR0911 - a table of shapes
    """Replace variables and stored maps by their values; a difference of times becomes `DURATION`."""
    match expression:
        case ScriptVariable(name) if name in scene.variables:
            return scene.variables[name]
        case Map(name) if name in scene.stored:
            return scene.stored[name]
        case Map(name, keys):
            return Map(name, tuple(resolve(key, scene) for key in keys))
        case ScriptCall("nsecs" | "elapsed" | "pid" | "tid" | "comm" | "cpu" as name, _):
            return Word(name)
        case ScriptCall(name, arguments):
            return ScriptCall(name, tuple(resolve(each, scene) for each in arguments))
        case Member(Word("args"), "ret") if scene.measured and scene.syscall:
            return Word("retval")
        case Member(of, name):
            return Member(resolve(of, scene), name)
        case Cast(type_, of):
            return Cast(type_, resolve(of, scene))
        case ScriptOperation(sign, operands):
            made = ScriptOperation(sign, tuple(resolve(each, scene) for each in operands))
            is_time = isinstance(made.operands[0], Word) and made.operands[0].name in CLOCKS
            return DURATION if sign == "-" and is_time and made.operands[1:] == (BEGAN,) else made
    return expression


def conditions(expression: Expression | Unread | None) -> Iterator[Expression | Unread]:
    """Yield the operands of nested `a && b`."""
    if isinstance(expression, ScriptOperation) and expression.sign == "&&":
        for operand in expression.operands:
            yield from conditions(operand)
    elif expression is not None:
        yield expression


def is_stored(expression: Expression | Unread, scene: Scene) -> bool:
    """Whether an expression only tests that the call's entry was seen: `@start[tid]`, `@start[tid] != 0`."""
    match expression:
        case Map(name):
            return name in scene.stored
        case ScriptVariable(name):
            return scene.variables.get(name) == BEGAN
        case ScriptOperation("!=" | ">", (of, ScriptNumber(0))):
            return is_stored(of, scene)
        case ScriptCall("has_key", (Map(name), *_)):
            return name in scene.stored
    return False


def condition(expression: Expression, scene: Scene) -> str:  # noqa: PLR0911 - a table of shapes
    """Translate a resolved expression to `--filter` syntax.

    Raises:
        LackingError: A filter cannot express it.

    """
    match expression:
        case ScriptNumber(value):
            return str(value)
        case String(value):
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case Word(name) if name in _NAMES:
            return name
        case Word(name) if expression == DURATION:
            return "duration"
        case Member(Word("args"), name) if scene.is_tracepoint:
            return f"args.{name}"
        case Cast(type_, of):
            return _narrowed(_type(type_), of, scene)
        case ScriptOperation(sign, operands):
            return _operation(sign, operands, scene)
    raise LackingError(f"{as_written(expression)} cannot be used in a filter: {_why_not(expression)}")


def _operation(sign: str, operands: tuple[Expression, ...], scene: Scene) -> str:
    if sign == "!" and len(operands) == 1:
        return f"not ({condition(operands[0], scene)})"
    if sign in ("-", "~") and len(operands) == 1:
        return f"{sign}{condition(operands[0], scene)}"
    both = [condition(each, scene) for each in operands]
    if len(both) == 2 and sign in _SIGNS:
        return f"({both[0]} {_SIGNS[sign]} {both[1]})"
    if sign in _BY_CONSTANT and not isinstance(operands[1], ScriptNumber):
        raise LackingError(f"in a filter, the right side of `{sign}` must be a constant")
    if len(both) == 2 and sign in (*_PLAIN_SIGNS, *_BY_CONSTANT):
        nested = [
            f"({text})"
            if isinstance(of, ScriptOperation) and len(of.operands) == 2 and not text.startswith("(")
            else text
            for of, text in zip(operands, both, strict=True)
        ]
        return f"{nested[0]} {sign} {nested[1]}"
    raise LackingError(f"`{sign}` cannot be used in a filter")


def _narrowed(type_: str, of: Expression, scene: Scene) -> str:
    if type_ in ("u64", "s64"):
        return condition(of, scene)
    if type_ in ("u8", "u16", "u32"):
        return f"({condition(of, scene)} & {hex((1 << int(type_[1:])) - 1)})"
    raise LackingError(
        f"{as_written(Cast(type_, of))} cannot be used in a filter: compare the lower bits, e.g. x & 0xffffffff"
    )


def _why_not(expression: Expression) -> str:
    match expression:
        case Map():
            return "filters cannot read maps; select rows of t.events afterwards"
        case ScriptCall("str" | "strncmp" | "strcontains", _):
            return "filters cannot read text through pointers; select rows of t.events afterwards"
        case Word(name) if name in CLOCKS:
            return "filters have no timestamps; select rows of t.events by time_ns"
        case Word(name) if name.isupper():
            return "write the constant's numeric value"
        case Member():
            return "filters cannot read structures; use `--program` with BPF C"
    return "there is no such value; select rows of t.events afterwards, or use `--program` with BPF C"


def leaves(expression: Expression) -> Iterator[Expression]:
    """Yield the operands of a printed expression that become columns."""
    match expression:
        case ScriptOperation("?", (_, *branches)):
            for each in branches:
                yield from leaves(each)
        case ScriptOperation("*", (_,)) | ScriptOperation("[]"):
            yield expression
        case ScriptOperation(_, operands):
            for each in operands:
                yield from leaves(each)
        case Cast(type_, of) if not _STRUCT.match(type_) and _type(type_):
            yield expression if isinstance(of, Word) else of
        case ScriptCall("str", _) | ScriptCall("kstack" | "ustack", _):
            yield expression
        case ScriptCall(name, (of, *_)) if name in _SHOWN_BY:
            yield of
        case ScriptNumber() | String():
            return
        case _:
            yield expression


def column(  # noqa: C901, PLR0911 - a table of shapes
    expression: Expression, scene: Scene, requested: RequestedColumns, hint: str = ""
) -> ColumnExpression:
    """Translate a resolved expression to a column, and request it.

    Raises:
        LackingError: There is no such column.

    """
    match expression:
        case Word(name) if name in _COLUMNS:
            return _plain(_COLUMNS[name])
        case Word(name) if name in ARGUMENT_NAMES:
            return requested.capture(hint or name, f"{name}:u64")
        case Word("kstack" | "ustack" as name) | ScriptCall("kstack" | "ustack" as name, _):
            requested.stacks[STACKS[name]] = None
            return _plain("stack")
        case Member(Word("args"), name):
            return _field(name, scene)
        case ScriptCall("str", (of, *_)):
            return _text(of, scene, requested, hint)
        case Cast(type_, Word(name)) if name in (*ARGUMENT_NAMES, "retval") and _type(type_):
            return requested.capture(hint or name, f"{name}:{_type(type_)}")
        case Cast(_, of):
            return column(of, scene, requested, hint)
        case ScriptOperation("*", (Cast(type_, of),)) if type_.endswith("*") and _type(type_.rstrip("* ")):
            address, offset = _address(of)
            return requested.capture(hint or f"{address}_{offset}", f"{address}[{offset}]:{_type(type_.rstrip('* '))}")
        case ScriptOperation("/" | "+" | "-" | "*" | "%" as sign, (of, ScriptNumber(value))):
            return ColumnExpression(
                f"{column(of, scene, requested, hint).text} {'//' if sign == '/' else sign} {value}"
            )
        case ScriptOperation("-", (Word(name), Map())) if name in CLOCKS:
            how = "trace both and subtract time_ns of matching rows"
            raise LackingError(f"{as_written(expression)}, the time from one probe to another: {how}")
    raise LackingError(f"{as_written(expression)}: {_no_column(expression)}")


def _plain(name: str) -> ColumnExpression:
    return ColumnExpression(f't.events["{name}"]', name)


def _field(name: str, scene: Scene) -> ColumnExpression:
    if not scene.is_tracepoint:
        raise LackingError(f"args.{name}: arguments are numbered: use --args '{name}=argN:u64'")
    if name == "id" and scene.syscall == "*":
        return _plain("function" if scene.measured else "id")
    return _plain(f"{name}_field" if name in DEFAULT_COLUMNS else name)


def _text(of: Expression, scene: Scene, requested: RequestedColumns, hint: str) -> ColumnExpression:
    match of:
        case Word(name) if name in (*ARGUMENT_NAMES, "retval"):
            return requested.capture(hint or f"{name}_text", f"{name}:str")
        case Member(Word("args"), name) if scene.is_tracepoint and scene.syscall:
            raise LackingError(_text_of_syscall(name, scene.syscall))
        case ScriptOperation("*", (Cast(type_, inner),)) if type_.replace(" ", "").endswith("**"):
            address, offset = _address(inner)
            return requested.capture(hint or f"{address}_text", f"{address}[{offset}]:str")
        case Cast(_, inner):
            return _text(inner, scene, requested, hint)
    return column(of, scene, requested, hint)


def _text_of_syscall(name: str, call: str) -> str:
    function, place = _TEXT_CALLS.get(call, ("", -1))
    where = f"uprobe:libc:{function or call} --args '{name}=arg{place if place >= 0 else 'N'}:str'"
    return f"str(args.{name}): the column {name} has the address; {where} reads the text in the C library's function"


def _address(of: Expression) -> tuple[str, int]:
    """Get argument and offset of `(T *)arg1`, `arg1 + 8`. Raises LackingError for other addresses."""
    match of:
        case Word(name) if name in (*ARGUMENT_NAMES, "retval"):
            return name, 0
        case ScriptOperation("+", (Word(name), ScriptNumber(offset))) if (
            name in (*ARGUMENT_NAMES, "retval") and offset <= 65535
        ):
            return name, offset
        case Cast(_, inner):
            return _address(inner)
    raise LackingError(f"{as_written(of)} is not an argument plus an offset: use `--program` with BPF C")


def _no_column(expression: Expression) -> str:
    match expression:
        case Member(Cast(type_, Word(name)), part) if (found := _STRUCT.match(type_)) and name in ARGUMENT_NAMES:
            of = found["name"]
            return f"give its offset in struct {of}: --args '{part}={name}[OFFSET]:u64' (pahole -C {of})"
        case Member():
            return "it is behind several pointers: use `--program` with BPF C"
        case Map():
            return "maps filled by other hits are not available: join rows of t.events"
        case ScriptOperation("[]", _):
            return "arrays cannot be columns: use `--program` with BPF C"
    return "there is no such column; use `--program` with BPF C"


def _type(text: str) -> str:
    """Column type for a C integer type; '' for other types."""
    plain = text.removeprefix("const ").strip()
    if found := _INTEGER.fullmatch(plain):
        return found["short"] or f"{'u' if found['unsigned'] else 's'}{found['bits']}"
    return _TYPES.get(plain, "")


def as_written(expression: Expression | Unread) -> str:  # noqa: C901, PLR0911, PLR0912 - a table of shapes
    """Write an expression in bpftrace syntax."""
    match expression:
        case ScriptNumber(value):
            return str(value)
        case String(value):
            return f'"{value}"'
        case Word(name):
            return {BEGAN.name: "nsecs", DURATION.name: "nsecs - @start"}.get(name, name)
        case ScriptVariable(name):
            return f"${name}"
        case Map(name, keys):
            return f"@{name}" + (f"[{', '.join(map(as_written, keys))}]" if keys else "")
        case ScriptCall(name, arguments):
            return f"{name}({', '.join(map(as_written, arguments))})"
        case Member(of, name):
            return f"{_inner(of)}.{name}"
        case Cast(type_, of):
            return f"({type_}){_inner(of)}"
        case ScriptOperation("[]", (of, key)):
            return f"{_inner(of)}[{as_written(key)}]"
        case ScriptOperation("(,)", operands):
            return f"({', '.join(map(as_written, operands))})"
        case ScriptOperation("?", (test, then, otherwise)):
            return f"{_inner(test)} ? {_inner(then)} : {_inner(otherwise)}"
        case ScriptOperation(sign, (of,)):
            return f"{sign}{_inner(of)}"
        case ScriptOperation(sign, (left, right)):
            return f"{_inner(left)} {sign} {_inner(right)}"
        case Unread(text):
            return text
    return str(expression)


def _inner(expression: Expression) -> str:
    """Write an operand, in parentheses if it is itself an operation."""
    text = as_written(expression)
    plain = not isinstance(expression, ScriptOperation | Cast) or (
        isinstance(expression, ScriptOperation) and expression.sign == "[]"
    )
    return text if plain else f"({text})"
