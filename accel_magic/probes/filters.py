"""`--filter EXPR`: a checked expression, translated to C for one probe point.

The user's text is parsed by Python's own parser and then rebuilt: the C holds only numbers and accessor names from the
tables here, so nothing of the text reaches the compiler.

What an expression means:

- Names: `pid tid cpu comm` everywhere; `arg0`..`arg11`, `retval`, `duration` (ns) and a tracepoint's fields where the
  probe point has them. `args.NAME` is always the field, also where it is called like one of the others.
- Grammar and precedence are Python's; `&&`, `||` and `!` are other spellings of `and`, `or` and `not`.
- Values are 64 bits wide. A function's arguments and `u64` fields are unsigned, all else is signed. Of an argument or a
  return value that is a C `int` the upper half is in no known state: compare `arg0 & 0xffffffff`.
- Comparisons are exact: an unsigned value is never equal to, or below, a negative one.
- Arithmetic wraps around at 64 bits and is unsigned as soon as one operand is an unsigned value (so `arg0 - 1` is
  huge where arg0 is 0); constants take the other side's kind. `/` and `%` take a positive constant and round toward
  zero as in C; shifts take a constant of 0..63 and `>>` keeps a signed value's sign.
- A number on its own is true when it is not 0. Text compares with `==`, `!=` and `in`, as a whole.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from accel_magic.errors import ProbeError
from accel_magic.probes.filter_names import Leaf, Names, Text, names_of
from accel_magic.probes.filter_values import Const, Number, Value, arithmetic, compare, negate, truth
from accel_magic.probes.plan import Filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel_magic.probes.plan import ProbePoint

_V = TypeVar("_V", Const, Value)

_LONGEST_TEXT = 1000
_LONGEST_C = 20_000  # a signed division names its operand twice, so a tower of them grows without end
_MOST_SAVED = 6
_BLANKED = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|&&|\|\||!(?!=)")
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
        text: The user's expression; blank gives a filter that lets everything through.
        point: Kind, latency, fields and USDT arguments decide which names there are.

    Returns:
        C over AM_ARG0..AM_ARG5, AM_RETVAL, AM_DURATION, AM_SAVED(i), AM_COMM_IS(low, high), AM_FIELD(type, offset),
        am_pid, am_tid and am_cpu, each cast to (s64) or (u64). For a latency point, a filter that needs the return is
        put in `exit`, and what it needs of the entry in `saved` (u64 expressions, at most 6).

    Raises:
        ProbeError: It cannot be understood, or names something that this point lacks.

    """
    return _compile(text, names_of(point)) if text.strip() else Filter()


@lru_cache(maxsize=4096)
def _compile(text: str, names: Names) -> Filter:
    tree = _parse(text)
    at_exit = any(leaf.at_exit for leaf in _leaves(tree, names))
    translation = _Translation(text, names, saving=at_exit)
    try:
        code = translation.condition(tree)
    except RecursionError:
        raise _bad(text, "it is nested too deeply") from None
    if len(code) > _LONGEST_C:
        raise _bad(text, "it grows too long once translated")
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
        if re.search(r"(?<![=!<>])=(?!=)", python):
            raise _bad(text, "`=` does not compare", "compare with ==") from None
        raise _bad(text, getattr(error, "msg", "") or "it is not an expression") from None


def _leaves(tree: ast.expr, names: Names) -> list[Leaf]:
    """Return the number leaves that an expression uses; unknown names are reported when it is translated."""
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
    """C text of a truth value; it cannot be counted with."""

    code: str


@dataclass
class _String:
    value: str


class _Translation:
    """One expression on its way to C; collects what must be saved at entry."""

    def __init__(self, text: str, names: Names, *, saving: bool) -> None:
        self.text = text
        self.names = names
        self.saving = saving
        self.saved: list[str] = []
        self.uses_comm = False

    def condition(self, node: ast.expr) -> str:
        """C text, in parentheses, that is non-zero where `node` holds."""
        result = self._visit(node)
        if isinstance(result, _Condition):
            return result.code
        return truth(self._number(result))

    def _visit(self, node: ast.expr) -> Value | Text | _Condition | _String:  # noqa: PLR0911 - a table of shapes
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
                raise self._bad("// is not known", "use /, which rounds toward zero")
        raise self._bad(f"{type(node).__name__} cannot be used in a filter")

    def _constant(self, value: object) -> Const | _String:
        if isinstance(value, str):
            return _String(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return self._limited(Const(value))
        raise self._bad(f"{value!r} is neither a whole number nor a text")

    def _leaf(self, node: ast.expr) -> Value | Text:
        name = _name_of(node)
        leaf = self.names.find(name) if name else None
        if leaf is None:
            wanted = name or ast.unparse(node)
            why = self.names.lacking.get(wanted, f"{self.names.place} has no {wanted!r}")
            raise self._bad(why, f"it has {', '.join(self.names.listed())}")
        if isinstance(leaf, Text):
            return leaf
        if self.saving and leaf.at_entry:
            return Number(self._save(f"((u64)({leaf.code}))", signed=leaf.signed), signed=leaf.signed)
        return Number(f"(({'s64' if leaf.signed else 'u64'})({leaf.code}))", signed=leaf.signed)

    def _save(self, code: str, *, signed: bool) -> str:
        if code not in self.saved:
            self.saved.append(code)
        if len(self.saved) > _MOST_SAVED:
            raise self._bad(
                f"it needs more than {_MOST_SAVED} values of the call's entry at its return", "use fewer of them"
            )
        return f"(({'s64' if signed else 'u64'})(AM_SAVED({self.saved.index(code)})))"

    def _arithmetic(self, operator: str, left: ast.expr, right: ast.expr) -> Value:
        a, b = self._number(self._visit(left)), self._number(self._visit(right))
        if operator in ("/", "%") and not (isinstance(b, Const) and b.value > 0):
            raise self._bad(f"`{operator}` takes a positive constant on its right")
        if operator in ("<<", ">>") and not (isinstance(b, Const) and 0 <= b.value <= 63):
            raise self._bad(f"`{operator}` takes a constant of 0 to 63 on its right")
        return self._limited(arithmetic(operator, a, b))

    def _comparison(self, left: ast.expr, ops: Sequence[ast.cmpop], comparators: Sequence[ast.expr]) -> _Condition:
        parts = []
        for op, right in zip(ops, comparators, strict=True):
            if isinstance(op, ast.In | ast.NotIn):
                parts.append(self._membership(left, right, negated=isinstance(op, ast.NotIn)))
            elif type(op) in _COMPARISONS:
                parts.append(self._compare(_COMPARISONS[type(op)], self._visit(left), self._visit(right)))
            else:
                raise self._bad("`is` cannot be used in a filter", "compare with ==")
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
        self, operator: str, left: Value | Text | _Condition | _String, right: Value | Text | _Condition | _String
    ) -> str:
        match left, right:
            case (Text() as text, _String(value=value)) | (_String(value=value), Text() as text):
                return self._compare_text(operator, text, value)
            case (Text() | _String(), _) | (_, Text() | _String()):
                raise self._bad(
                    "text compares only with `comm` or a text field on one side and a constant on the other"
                )
        code = compare(operator, self._number(left), self._number(right))
        if len(code) > _LONGEST_C:
            raise self._bad("it grows too long once translated")
        return code

    def _compare_text(self, operator: str, text: Text, value: str) -> str:
        if operator not in ("==", "!="):
            raise self._bad(f"text cannot be compared with `{operator}`", "use ==, != or in")
        try:
            data = value.encode()
        except UnicodeEncodeError:
            raise self._bad(f"{value!r} is not text") from None
        if b"\0" in data or len(data) > text.longest:
            raise self._bad(f"{value!r} never fits: {text.name} holds at most {text.longest} bytes and no NUL")
        code = text.equals(data)
        self.uses_comm |= text.is_comm
        if self.saving and not text.is_comm:
            code = f"({self._save(f'((u64)({code}))', signed=False)} != (u64)0x0ULL)"
        return code if operator == "==" else f"(!{code})"

    def _number(self, value: Value | Text | _Condition | _String) -> Value:
        if isinstance(value, _Condition):
            raise self._bad("a condition is not a number", "join conditions with and, or, not")
        if isinstance(value, Text | _String):
            raise self._bad("a text is not a number", 'compare it, e.g. comm == "python3"')
        return value

    def _limited(self, value: _V) -> _V:
        if isinstance(value, Const) and not -(1 << 63) <= value.value < 1 << 64:
            raise self._bad("a constant needs more than 64 bits")
        if isinstance(value, Number) and len(value.code) > _LONGEST_C:
            raise self._bad("it grows too long once translated")
        return value

    def _bad(self, why: str, fix: str = "") -> ProbeError:
        return _bad(self.text, why, fix)


def _bad(text: str, why: str, fix: str = "") -> ProbeError:
    return ProbeError(f"the filter {text!r} cannot be used", why=why, fix=fix or _EXAMPLE, code="filter.invalid")
