"""`--filter EXPR`: a validated expression, translated to C for one probe point.

The user's text is parsed by Python's own parser and rebuilt. The C contains only numbers and accessor names from the
tables here; no user text reaches the compiler.

Semantics:

- Names: `pid tid cpu comm` everywhere; `arg0`..`arg11`, `retval`, `duration` (ns) and a tracepoint's fields where the
  probe point has them. `args.NAME` is always the field, even if it has the name of another value.
- Grammar and precedence are Python's; `&&`, `||` and `!` mean `and`, `or` and `not`.
- Values are 64 bits wide. A function's arguments and `u64` fields are unsigned, all others are signed. The upper half
  of an argument or return value of C type `int` is undefined: compare `arg0 & 0xffffffff`.
- Comparisons are exact: an unsigned value is never equal to, or below, a negative one.
- Arithmetic wraps around at 64 bits and is unsigned if either operand is unsigned (so `arg0 - 1` is huge if
  arg0 is 0); constants adopt the other side's signedness. `/` and `%` take a positive constant and round toward
  zero as in C; shifts take a constant of 0..63 and `>>` keeps a signed value's sign.
- A number alone is true if it is not 0. Text is compared as a whole, with `==`, `!=` and `in`.
"""

from __future__ import annotations

import ast
import operator as operator_
import re
import shlex
import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from accel_magic.errors import ProbeError
from accel_magic.probes.captures import ARGUMENT_NAMES
from accel_magic.probes.globs import near
from accel_magic.probes.plan import (
    FUNCTION_KINDS,
    RETURN_KINDS,
    THREAD_KINDS,
    UNREADABLE,
    Filter,
    Kind,
    TracepointField,
    UsdtArgument,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from accel_magic.probes.plan import ProbePoint


_MASK = (1 << 64) - 1
_LARGEST_SIGNED = (1 << 63) - 1
_FLIPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Const:
    """A constant. Stored ones are within -2^63 .. 2^64 - 1."""

    value: int


@dataclass(frozen=True)
class FilterNumber:
    """C text, in parentheses, of an s64 (`signed`) or u64 value."""

    code: str
    signed: bool


Value = Const | FilterNumber


def arithmetic(operator: str, a: Value, b: Value) -> Value:
    """C of `a operator b`: one of + - * & | ^, / % with b a positive constant, << >> with b a constant of 0..63.

    Two constants are folded exactly; the result may need more than 64 bits.
    """
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(_FOLDS[operator](a.value, b.value))
    if operator in ("<<", ">>"):
        return _shift(operator, a, b)
    signed = _is_signed(a) and _is_signed(b)
    left, right = _as(a, "u64"), _as(b, "u64")
    if not signed:
        return FilterNumber(f"({left} {operator} {right})", signed=False)
    if operator in ("/", "%"):
        value = _as(a, "s64")
        return FilterNumber(
            f"({value} < (s64)0x0ULL ? (s64)(-((-{left}) {operator} {right})) : (s64)({left} {operator} {right}))",
            signed=True,
        )
    return FilterNumber(f"((s64)({left} {operator} {right}))", signed=True)


def negate(operator: str, a: Value) -> Value:
    """C of `-a` or `~a`."""
    if isinstance(a, Const):
        return Const(-a.value if operator == "-" else ~a.value)
    code = f"({operator}{_as(a, 'u64')})"
    return FilterNumber(f"((s64){code})" if a.signed else code, signed=a.signed)


def compare(operator: str, a: Value, b: Value) -> str:
    """C of `a operator b`, exact even for mixed signedness."""
    if _is_signed(a) and _is_signed(b):
        return f"({_as(a, 's64')} {operator} {_as(b, 's64')})"
    if not _may_be_negative(a) and not _may_be_negative(b):
        return f"({_as(a, 'u64')} {operator} {_as(b, 'u64')})"
    if _is_signed(a):
        a, b, operator = b, a, _FLIPPED[operator]
    same = f"{_as(a, 'u64')} {operator} {_as(b, 'u64')}"
    below = f"{_as(b, 's64')} < (s64)0x0ULL"
    # If b is negative, the unsigned a is greater.
    return f"({below} || {same})" if operator in ("!=", ">", ">=") else f"(!({below}) && {same})"


def truth(a: Value) -> str:
    """C of `a != 0`."""
    return f"({_as(a, 'u64')} != (u64)0x0ULL)"


def _is_signed(a: Value) -> bool:
    return a.value <= _LARGEST_SIGNED if isinstance(a, Const) else a.signed


def _may_be_negative(a: Value) -> bool:
    return a.value < 0 if isinstance(a, Const) else a.signed


def _as(a: Value, type_: str) -> str:
    if isinstance(a, Const):
        return f"(({type_})0x{a.value & _MASK:x}ULL)"
    return a.code if type_ == ("s64" if a.signed else "u64") else f"(({type_}){a.code})"


def _shift(operator: str, a: Value, b: Value) -> Value:
    amount = b.value if isinstance(b, Const) else 0
    signed = _is_signed(a)
    if operator == ">>":
        return FilterNumber(f"({_as(a, 's64' if signed else 'u64')} >> 0x{amount:x})", signed=signed)
    shifted = f"({_as(a, 'u64')} << 0x{amount:x})"
    return FilterNumber(f"((s64){shifted})" if signed else shifted, signed=signed)


def _divide(a: int, b: int) -> int:
    return a // b if a >= 0 else -(-a // b)


_FOLDS: dict[str, Callable[[int, int], int]] = {
    "+": operator_.add,
    "-": operator_.sub,
    "*": operator_.mul,
    "/": _divide,
    "%": lambda a, b: a - b * _divide(a, b),
    "&": operator_.and_,
    "|": operator_.or_,
    "^": operator_.xor,
    "<<": operator_.lshift,
    ">>": operator_.rshift,
}


_COMM_BYTES = 16
_CHARS = re.compile(r"char\[(\d+)\]")
_INTEGERS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
PREFIX_FIELD = "args."


@dataclass(frozen=True)
class Leaf:
    """A number read by the accessor `code`; `at_entry` (`at_exit`): known only at the call's entry (return)."""

    code: str
    signed: bool
    at_entry: bool = False
    at_exit: bool = False


@dataclass(frozen=True)
class FilterText:
    """Text of at most `longest` bytes: the task's name, or `size` bytes inline in the record at `offset`."""

    name: str
    longest: int
    offset: int = 0
    size: int = 0

    @property
    def is_comm(self) -> bool:
        """Whether this is the task's name."""
        return self.size == 0

    def equals(self, data: bytes) -> str:
        """C, in parentheses, that tests whether the text equals `data`."""
        if self.is_comm:
            padded = data.ljust(_COMM_BYTES, b"\0")
            low, high = (int.from_bytes(padded[at : at + 8], "little") for at in (0, 8))
            return f"(AM_COMM_IS(0x{low:x}ULL, 0x{high:x}ULL))"
        ended = (data + b"\0")[: self.size]
        tests = (f"((u64)(AM_FIELD(u8, {self.offset + at}))) == ((u64)0x{byte:x}ULL)" for at, byte in enumerate(ended))
        return f"({' && '.join(tests)})"


@dataclass(frozen=True)
class FilterNames:
    """Names that a filter can use. Compared by shape only, so that points of one shape share a translation."""

    kind: Kind
    latency: bool
    fields: tuple[TracepointField, ...]
    usdt_arguments: tuple[UsdtArgument, ...]
    place: str = field(default="", compare=False)
    probe: str = field(default="", compare=False)
    lacking: Mapping[str, str] = field(default_factory=dict, compare=False)
    _values: Mapping[str, Leaf | FilterText] = field(default_factory=dict, compare=False)

    def find(self, name: str) -> Leaf | FilterText | None:
        """Look up a name; None if there is no such value."""
        return self._values.get(name)

    def listed(self) -> list[str]:
        """Names to list in a message; `args.` only if needed to disambiguate."""
        hidden = {f"{PREFIX_FIELD}{name}" for name in self._values if self._is_field(name)}
        return [name for name in self._values if name not in hidden]

    def _is_field(self, name: str) -> bool:
        return self._values[name] == self._values.get(f"{PREFIX_FIELD}{name}")


def names_of(point: ProbePoint) -> FilterNames:
    """Collect the names that a filter can use at `point`."""
    place = f"{point.kind}:{point.function}" if not point.latency else f"latency of {point.function}"
    if point.kind in THREAD_KINDS:
        place = point.kind
    shape = (point.kind, point.latency, point.fields, point.usdt_arguments)
    return FilterNames(*shape, place, point.probe, *_values(*shape))


def argument_sources(point: ProbePoint) -> tuple[str, ...]:
    """Sources of `--args` that can be read at `point`: `arg0`.. and `retval`."""
    names = names_of(point)
    return tuple(name for name in (*ARGUMENT_NAMES, "retval") if isinstance(names.find(name), Leaf))


@lru_cache(maxsize=4096)
def _values(
    kind: Kind, latency: bool, fields: tuple[TracepointField, ...], usdt_arguments: tuple[UsdtArgument, ...]
) -> tuple[dict[str, str], dict[str, Leaf | FilterText]]:
    values: dict[str, Leaf | FilterText] = {
        "pid": Leaf("am_pid", signed=True),
        "tid": Leaf("am_tid", signed=True),
        "cpu": Leaf("am_cpu", signed=True),
        "comm": FilterText("comm", _COMM_BYTES - 1),
    }
    missing = {}
    if kind in FUNCTION_KINDS and kind not in RETURN_KINDS:
        values |= {
            name: Leaf(f"AM_ARG{number}", signed=False, at_entry=True) for number, name in enumerate(ARGUMENT_NAMES)
        }
    for number, argument in enumerate(usdt_arguments[: len(ARGUMENT_NAMES)]):
        if argument == UNREADABLE:
            missing[f"arg{number}"] = f"arg{number} of this probe is in a location that cannot be read"
        else:
            values[f"arg{number}"] = Leaf(f"AM_ARG{number}", signed=argument.size < 0, at_entry=True)
    if kind == "offcpu":
        values["state"] = Leaf("AM_WAIT_STATE", signed=True)
        values["syscall"] = Leaf("AM_WAIT_SYSCALL", signed=True)
    elif kind in RETURN_KINDS or (latency and kind != "itt"):
        values["retval"] = Leaf("AM_RETVAL", signed=True, at_exit=latency)
    if latency:
        values["duration"] = Leaf("AM_DURATION", signed=True, at_exit=True)
    for item in fields:
        value = _field(item)
        if value:
            values.setdefault(item.name, value)
            values[f"{PREFIX_FIELD}{item.name}"] = value
        else:
            reason = f"the text of {item.name!r} is stored outside the record, where filters cannot read it"
            missing |= {item.name: reason, f"{PREFIX_FIELD}{item.name}": reason}
    return missing, values


def _field(item: TracepointField) -> Leaf | FilterText | None:
    if item.type in _INTEGERS:
        return Leaf(f"AM_FIELD({item.type}, {item.offset})", signed=item.type != "u64", at_entry=True)
    if chars := _CHARS.fullmatch(item.type):
        return FilterText(item.name, int(chars[1]), item.offset, int(chars[1]))
    return None


_V = TypeVar("_V", Const, Value)

_LONGEST_TEXT = 1000
_LONGEST_C = 20_000  # a signed division repeats its operand, so nested ones grow exponentially
_MOST_SAVED = 6
_BLANKED = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|&&|\|\||!(?!=)")
_QUOTED = re.compile(r"('(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")")
_ASSIGNED = re.compile(r"(?<![=!<>])=(?!=)")
_BARE = re.compile(r"\b([A-Za-z_][\w.]*)\s*(==|!=)\s*([^\s()&|,=]+)")
_TIME = re.compile(r"\b([0-9]+)(ns|us|ms|s)\b")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_NS = {"ns": 1, "us": 1000, "ms": 1_000_000, "s": 1_000_000_000}
_WORDS = frozenset(("and", "or", "not", "in", "is", "args"))
_OTHER_NAMES = {
    **dict.fromkeys(("arg", "argument"), "arg0"),
    **dict.fromkeys(("ret", "rc", "result"), "retval"),
    **dict.fromkeys(("latency", "elapsed", "time"), "duration"),
    **dict.fromkeys(("command", "process", "name", "execname"), "comm"),
}
"""Names in other tools, and ours."""
_OF_OTHER_POINTS = re.compile(r"arg\d+|retval|duration|state|syscall")
"""Names with a meaning at other points: they are not mistyped."""
_NO_QUOTES = "text needs quotes"
_SPELLINGS = {"&&": " and ", "||": " or ", "!": " not "}
_EXAMPLE = "e.g. --filter 'pid == 1234 and arg1 > 4096' or --filter 'comm == \"python3\" && duration > 1000000'"

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}


def compile_filter(text: str, point: ProbePoint) -> Filter:
    """Translate a filter for one probe point.

    Args:
        text: The user's expression; a blank filter passes everything.
        point: Its kind, latency, fields and USDT arguments determine the available names.

    Returns:
        C over AM_ARG0..AM_ARG5, AM_RETVAL, AM_DURATION, AM_SAVED(i), AM_COMM_IS(low, high), AM_FIELD(type, offset),
        am_pid, am_tid and am_cpu, each cast to (s64) or (u64). For a latency point, a filter that needs the return goes
        into `exit`, and the entry values it needs go into `saved` (u64 expressions, at most 6).

    Raises:
        ProbeError: The text is invalid, or uses a name that this point lacks.

    """
    if not text.strip():
        return Filter()
    names = names_of(point)
    try:
        return _compile(text, names)
    except ProbeError as error:
        meant = _repaired(text, names)
        if meant == text or not _is_valid(meant, names):
            raise
        why = _NO_QUOTES if _bare_quoted(text, names) != text else error.why
        raise _bad(text, why, f"write --filter {quoted(meant)}") from None


def quoted(text: str) -> str:
    """Quote a filter for a line; shells and magics read it alike."""
    return shlex.quote(text) if "'" in text else f"'{text}'"


def _is_valid(text: str, names: FilterNames) -> bool:
    try:
        _compile(text, names)
    except ProbeError:
        return False
    return True


def _repaired(text: str, names: FilterNames) -> str:
    """Correct what newcomers write: `=`, text without quotes, units of time, mistyped names."""
    text = _outside_quotes(_ASSIGNED, lambda _: "==", text)
    text = _outside_quotes(_TIME, lambda found: str(int(found[1]) * _NS[found[2]]), _bare_quoted(text, names))
    return _outside_quotes(_NAME, lambda found: _known_name(found[0], names), text)


def _known_name(name: str, names: FilterNames) -> str:
    if name in _WORDS or _OF_OTHER_POINTS.fullmatch(name) or names.find(name) is not None or name in names.lacking:
        return name
    other = _OTHER_NAMES.get(name, "")
    return other if names.find(other) is not None else next(iter(near(name, names.listed(), 1)), name)


def _bare_quoted(text: str, names: FilterNames) -> str:
    """Put quotes around what text is compared with."""

    def with_quotes(found: re.Match[str]) -> str:
        name, operator, value = found.groups()
        is_name = value.startswith(PREFIX_FIELD) or names.find(value) is not None
        is_text = isinstance(names.find(name), FilterText) and not value.isdecimal() and not is_name
        return f'{name} {operator} "{value}"' if is_text else found[0]

    return _outside_quotes(_BARE, with_quotes, text)


def _outside_quotes(pattern: re.Pattern[str], change: Callable[[re.Match[str]], str], text: str) -> str:
    """Replace matches that are not inside quotes."""
    parts = _QUOTED.split(text)
    return "".join(part if at % 2 else pattern.sub(change, part) for at, part in enumerate(parts))


@lru_cache(maxsize=4096)
def _compile(text: str, names: FilterNames) -> Filter:
    tree = _parse(text)
    at_exit = any(leaf.at_exit for leaf in _leaves(tree, names))
    translation = _Translation(text, names, saving=at_exit)
    try:
        code = translation.condition(tree)
    except RecursionError:
        raise _bad(text, "it is nested too deeply") from None
    if len(code) > _LONGEST_C:
        raise _bad(text, "its translation is too long")
    return Filter(
        source=text,
        entry="" if at_exit else code,
        exit=code if at_exit else "",
        saved=tuple(translation.saved),
        uses_comm=translation.uses_comm,
    )


def _parse(text: str) -> ast.expr:
    if len(text) > _LONGEST_TEXT:
        raise _bad(text[:60] + "...", f"it is longer than {_LONGEST_TEXT} characters")
    python = _BLANKED.sub(lambda found: _SPELLINGS.get(found[0], found[0]), text).strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(python, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if _ASSIGNED.search(python):
            raise _bad(text, "`=` is not a comparison", "use ==") from None
        raise _bad(text, getattr(error, "msg", "") or "it is not an expression") from None


def _leaves(tree: ast.expr, names: FilterNames) -> list[Leaf]:
    """Return the numeric leaves of an expression; unknown names are reported during translation."""
    found = (names.find(name) for node in ast.walk(tree) if (name := _name_of(node)))
    return [leaf for leaf in found if isinstance(leaf, Leaf)]


def _name_of(node: ast.AST) -> str:
    match node:
        case ast.Attribute(value=ast.Name(id="args"), attr=field):
            return f"args.{field}"
        case ast.Name(id=name):
            return name
    return ""


@dataclass
class _Condition:
    """C text of a truth value, which cannot be used as a number."""

    code: str


@dataclass
class _String:
    value: str


class _Translation:
    """Translates one expression to C; collects the values that must be saved at entry."""

    def __init__(self, text: str, names: FilterNames, *, saving: bool) -> None:
        self.text = text
        self.names = names
        self.saving = saving
        self.saved: list[str] = []
        self.uses_comm = False

    def condition(self, node: ast.expr) -> str:
        """C text, in parentheses, that is non-zero if `node` holds."""
        result = self._visit(node)
        if isinstance(result, _Condition):
            return result.code
        return truth(self._number(result))

    def _visit(self, node: ast.expr) -> Value | FilterText | _Condition | _String:  # noqa: PLR0911 - a table of shapes
        match node:
            case ast.Constant(value=value):
                return self._constant(value)
            case ast.Name() | ast.Attribute():
                return self._leaf(node)
            case ast.BoolOp(op=op, values=values):
                joint = " && " if isinstance(op, ast.And) else " || "
                return _Condition(f"({joint.join(self.condition(value) for value in values)})")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return _Condition(f"(!{self.condition(operand)})")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._limited(negate("-", self._number(self._visit(operand))))
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return self._limited(negate("~", self._number(self._visit(operand))))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return self._arithmetic(_ARITHMETIC[type(op)], left, right)
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                return self._comparison(left, ops, comparators)
            case ast.BinOp(op=ast.FloorDiv()):
                raise self._bad("`//` is not supported", "use /, which rounds toward zero")
        raise self._bad(f"{type(node).__name__} cannot be used in a filter")

    def _constant(self, value: object) -> Const | _String:
        if isinstance(value, str):
            return _String(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return self._limited(Const(value))
        raise self._bad(f"{value!r} is neither an integer nor a string")

    def _leaf(self, node: ast.expr) -> Value | FilterText:
        name = _name_of(node)
        leaf = self.names.find(name) if name else None
        if leaf is None:
            requested = name or ast.unparse(node)
            why = self.names.lacking.get(requested, f"{self.names.place} has no {requested!r}")
            raise self._bad(why, self._instead_of(requested))
        if isinstance(leaf, FilterText):
            return leaf
        if self.saving and leaf.at_entry:
            return FilterNumber(self._save(f"((u64)({leaf.code}))", signed=leaf.signed), signed=leaf.signed)
        return FilterNumber(f"(({'s64' if leaf.signed else 'u64'})({leaf.code}))", signed=leaf.signed)

    def _instead_of(self, name: str) -> str:
        """Fix of a name that the point lacks."""
        probe = self.names.probe
        if name in ("duration", "retval") and self.names.kind in ("kprobe", "uprobe") and not self.names.latency:
            return f"write latency:{probe} instead of {probe}"
        return f"it has {', '.join(self.names.listed())}"

    def _save(self, code: str, *, signed: bool) -> str:
        if code not in self.saved:
            self.saved.append(code)
        if len(self.saved) > _MOST_SAVED:
            raise self._bad(
                f"it needs more than {_MOST_SAVED} entry values at the call's return", "use fewer entry values"
            )
        return f"(({'s64' if signed else 'u64'})(AM_SAVED({self.saved.index(code)})))"

    def _arithmetic(self, operator: str, left: ast.expr, right: ast.expr) -> Value:
        a, b = self._number(self._visit(left)), self._number(self._visit(right))
        if operator in ("/", "%") and not (isinstance(b, Const) and b.value > 0):
            raise self._bad(f"the right side of `{operator}` must be a positive constant")
        if operator in ("<<", ">>") and not (isinstance(b, Const) and 0 <= b.value <= 63):
            raise self._bad(f"the right side of `{operator}` must be a constant from 0 to 63")
        return self._limited(arithmetic(operator, a, b))

    def _comparison(self, left: ast.expr, ops: Sequence[ast.cmpop], comparators: Sequence[ast.expr]) -> _Condition:
        parts = []
        for op, right in zip(ops, comparators, strict=True):
            if isinstance(op, ast.In | ast.NotIn):
                parts.append(self._membership(left, right, negated=isinstance(op, ast.NotIn)))
            elif type(op) in _COMPARISONS:
                parts.append(self._compare(_COMPARISONS[type(op)], self._visit(left), self._visit(right)))
            else:
                raise self._bad("`is` cannot be used in a filter", "use ==")
            left = right
        return _Condition(parts[0] if len(parts) == 1 else f"({' && '.join(parts)})")

    def _membership(self, left: ast.expr, right: ast.expr, *, negated: bool) -> str:
        items = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else [right]
        if not items:
            raise self._bad("`in` has nothing to compare with", "write e.g. arg0 in (1, 2)")
        value = self._visit(left)
        code = " || ".join(self._compare("==", value, self._visit(item)) for item in items)
        return f"(!({code}))" if negated else f"({code})"

    def _compare(
        self,
        operator: str,
        left: Value | FilterText | _Condition | _String,
        right: Value | FilterText | _Condition | _String,
    ) -> str:
        match left, right:
            case (FilterText() as text, _String(value=value)) | (_String(value=value), FilterText() as text):
                return self._compare_text(operator, text, value)
            case (FilterText() | _String(), _) | (_, FilterText() | _String()):
                raise self._bad("text comparisons need `comm` or a text field on one side and a constant on the other")
        code = compare(operator, self._number(left), self._number(right))
        if len(code) > _LONGEST_C:
            raise self._bad("its translation is too long")
        return code

    def _compare_text(self, operator: str, text: FilterText, value: str) -> str:
        if operator not in ("==", "!="):
            raise self._bad(f"text cannot be compared with `{operator}`", "use ==, != or in")
        try:
            data = value.encode()
        except UnicodeEncodeError:
            raise self._bad(f"{value!r} is not text") from None
        if b"\0" in data or len(data) > text.longest:
            raise self._bad(f"{value!r} can never match: {text.name} has at most {text.longest} bytes and no NUL")
        code = text.equals(data)
        self.uses_comm |= text.is_comm
        if self.saving and not text.is_comm:
            code = f"({self._save(f'((u64)({code}))', signed=False)} != (u64)0x0ULL)"
        return code if operator == "==" else f"(!{code})"

    def _number(self, value: Value | FilterText | _Condition | _String) -> Value:
        if isinstance(value, _Condition):
            raise self._bad("a condition is not a number", "join conditions with and, or, not")
        if isinstance(value, FilterText | _String):
            raise self._bad("text is not a number", 'compare it, e.g. comm == "python3"')
        return value

    def _limited(self, value: _V) -> _V:
        if isinstance(value, Const) and not -(1 << 63) <= value.value < 1 << 64:
            raise self._bad("a constant needs more than 64 bits")
        if isinstance(value, FilterNumber) and len(value.code) > _LONGEST_C:
            raise self._bad("its translation is too long")
        return value

    def _bad(self, why: str, fix: str = "") -> ProbeError:
        return _bad(self.text, why, fix)


def _bad(text: str, why: str, fix: str = "") -> ProbeError:
    return ProbeError(f"the filter {text!r} cannot be used", why=why, fix=fix or _EXAMPLE, code="filter.invalid")
