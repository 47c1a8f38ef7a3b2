"""A partial parser for the bpftrace language: text to blocks of probes, filter and statements.

Text that cannot be parsed becomes `Unread`; nothing here raises on scripts that bpftrace would reject.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class ScriptNumber:
    """An integer."""

    value: int


@dataclass(frozen=True)
class String:
    """A string literal."""

    value: str


@dataclass(frozen=True)
class Word:
    """A builtin (`pid`, `args`, `arg0`) or a constant's name."""

    name: str


@dataclass(frozen=True)
class ScriptVariable:
    """`$name`."""

    name: str


@dataclass(frozen=True)
class Map:
    """`@name[keys]`."""

    name: str
    keys: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class ScriptCall:
    """`name(arguments)`."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Member:
    """`of.field` or `of->field`."""

    of: Expression
    field: str


@dataclass(frozen=True)
class ScriptOperation:
    """An operator with one, two or three operands: `!a`, `a + b`, `a ? b : c`, `a[b]`, `(a, b)`."""

    sign: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True)
class Cast:
    """`(type)of`."""

    type: str
    of: Expression


Expression: TypeAlias = (
    ScriptNumber | String | Word | ScriptVariable | Map | ScriptCall | Member | ScriptOperation | Cast
)


@dataclass(frozen=True)
class Assign:
    """`to = value`, or another assignment operator; `to++` is `to += 1`."""

    to: Map | ScriptVariable
    sign: str
    value: Expression


@dataclass(frozen=True)
class If:
    """A condition and its two branches."""

    condition: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Unread:
    """Text that was not parsed: syntax errors and loops."""

    text: str


Statement: TypeAlias = Assign | If | Unread | ScriptCall


@dataclass(frozen=True)
class ScriptBlock:
    """One `probe, probe /filter/ { statements }`."""

    probes: tuple[str, ...]
    filter: Expression | Unread | None
    statements: tuple[Statement, ...]


_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|^[ \t]*#[^\n]*', re.DOTALL | re.MULTILINE)
_TOKEN: Final = re.compile(
    r'\s*(?:(?P<text>"(?:\\.|[^"\\])*")|(?P<number>0[xX][0-9a-fA-F]+|\d[\d_]*(?:e\d+)?)[a-zA-Z]*'
    r"|(?P<word>[$@]?[A-Za-z_]\w*|[$@]\d*)"
    r"|(?P<sign>->|\+\+|--|<<=|>>=|<<|>>|[-+*/%&|^=!<>]=|&&|\|\||[-+*/%&|^~!<>=?:.,;(){}\[\]])|(?P<other>\S))",
    re.DOTALL,
)
_NOT_A_PROBE: Final = re.compile(r"(?:struct|union|enum|config|macro|fn|import|subprog)\b|typedef\b")
_CLOSING: Final = {"{": "}", "(": ")", "[": "]"}
_LEVELS: Final = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_ASSIGNING: Final = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
_TYPE: Final = re.compile(
    r"u?int(?:8|16|32|64)(?:_t)?|[us](?:8|16|32|64)|char|bool|void|long|short|int|unsigned|size_t"
)
_DEEPEST: Final = 60
_LONGEST: Final = 200_000
_LONGEST_HEAD: Final = 5_000


class _NotUnderstoodError(Exception):
    """An unexpected token."""


def read(text: str) -> tuple[ScriptBlock, ...]:
    """Parse a script."""
    return tuple(_block(head, body) for head, body in _pieces(without_comments(text)))


def without_comments(text: str) -> str:
    """Remove comments and preprocessor lines."""
    return _COMMENT.sub(lambda found: found[1] or " ", text[:_LONGEST])


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text before and inside each top-level `{`; the last head may have no body."""
    head, depth, start, at = 0, 0, 0, 0
    for token in re.finditer(r'"(?:\\.|[^"\\])*"|[{}]', text):
        at = token.end()
        if token[0] == "{":
            depth += 1
            start = at if depth == 1 else start
        elif token[0] == "}" and depth:
            depth -= 1
            if not depth:
                yield text[head : start - 1].strip(" \t\r\n;"), text[start : at - 1]
                head = at
    rest = text[head:].strip(" \t\r\n;")
    if depth:  # the code is cut off
        yield text[head : start - 1].strip(" \t\r\n;"), text[start:]
    elif rest:
        yield rest, ""


def _block(head: str, body: str) -> ScriptBlock:
    if _NOT_A_PROBE.match(head):
        return ScriptBlock((), None, ())
    probes, test = _split_head(head)
    names = tuple(name for part in _commas(probes) if (name := part.strip().strip("'")))
    return ScriptBlock(names, None if test is None else _expression_of(test), _statements_of(body))


def _split_head(head: str) -> tuple[str, str | None]:
    """Split `probe, probe /filter/`; paths in probes contain slashes too, but never after a space."""
    if len(head) > _LONGEST_HEAD:
        return head, None
    found = re.fullmatch(r"(?P<probes>.*?\S)\s+/(?P<test>.*)/", head, re.DOTALL)
    if found is None:  # kprobe:f/pid == 1/
        found = re.fullmatch(r"(?P<probes>.*:[^\s:/]+)/(?P<test>.*[^\w].*)/", head, re.DOTALL)
    return (found["probes"], found["test"]) if found else (head, None)


def _commas(text: str) -> Iterator[str]:
    """Split at commas outside quotes."""
    yield from re.findall(r'(?:"[^"]*"|[^,"])+', text)


def _expression_of(text: str) -> Expression | Unread:
    parser = _Parser(text)
    try:
        found = parser.expression()
    except (_NotUnderstoodError, RecursionError):
        return Unread(" ".join(text.split()))
    return found if parser.ended else Unread(" ".join(text.split()))


def _statements_of(text: str) -> tuple[Statement, ...]:
    parser = _Parser(text)
    found = []
    while not parser.ended:
        found += parser.statement_or_rest()
    return tuple(found)


class _Parser:
    """The tokens of a text and the current position."""

    def __init__(self, text: str) -> None:
        self._tokens = [(found.lastgroup or "", found[found.lastgroup or 0], found) for found in _TOKEN.finditer(text)]
        self._text = text
        self._at = 0
        self._depth = 0

    @property
    def ended(self) -> bool:
        """Whether all tokens were consumed."""
        return self._at >= len(self._tokens)

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at][1] if at < len(self._tokens) else ""

    def _kind(self) -> str:
        return "" if self.ended else self._tokens[self._at][0]

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _take(self, *signs: str) -> str:
        """Consume and return the next token if it is one of these signs, else ''."""
        return self._next() if self._kind() == "sign" and self._peek() in signs else ""

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise _NotUnderstoodError

    def statement_or_rest(self) -> list[Statement]:
        """Parse a statement; one that cannot be parsed is skipped and returned as text."""
        start = self._at
        try:
            return self._statement()
        except (_NotUnderstoodError, RecursionError):
            self._at = start
            return [Unread(self._skipped())]

    def _skipped(self) -> str:
        """Skip past the next `;` at this level, or to the `}` that ends it; return the skipped text."""
        first, closing = self._at, []
        while not self.ended:
            sign = self._next()
            if sign in _CLOSING:
                closing.append(_CLOSING[sign])
            elif closing and sign == closing[-1]:
                closing.pop()
                if sign == "}" and not closing:
                    break
            elif sign == ";" and not closing:
                break
            elif sign == "}" and not closing:
                self._at -= self._at - 1 > first
                break
        begin = self._tokens[first][2].start()
        return " ".join(self._text[begin : self._tokens[self._at - 1][2].end()].split()).rstrip(";")

    def _statement(self) -> list[Statement]:
        if self._take(";"):
            return []
        if self._peek() == "if":
            return [self._if()]
        if self._peek() in ("while", "for", "unroll"):
            return [Unread(self._skipped())]
        if self._peek() in ("return", "let"):
            return self._declaration()
        if self._peek() in ("++", "--"):
            sign, to = self._next(), self._primary()
            found: Statement = _assigned(to, f"{sign[0]}=", ScriptNumber(1))
        else:
            to = self.expression()
            if sign := self._take(*_ASSIGNING):
                found = _assigned(to, sign, self.expression())
            elif sign := self._take("++", "--"):
                found = _assigned(to, f"{sign[0]}=", ScriptNumber(1))
            elif isinstance(to, ScriptCall):
                found = to
            else:
                raise _NotUnderstoodError
        self._end()
        return [found]

    def _declaration(self) -> list[Statement]:
        """`return;`, `let $x;` and `let $x = 5;`."""
        if self._next() == "let" and self._peek(1) == "=":
            return self._statement()
        self._skipped()
        return []

    def _end(self) -> None:
        if not self.ended and not self._take(";") and self._peek() != "}":
            raise _NotUnderstoodError

    def _if(self) -> If:
        self._next()
        condition = self.expression()
        then = self._braces()
        otherwise: tuple[Statement, ...] = ()
        if self._peek() == "else":
            self._next()
            otherwise = (self._if(),) if self._peek() == "if" else self._braces()
        return If(condition, then, otherwise)

    def _braces(self) -> tuple[Statement, ...]:
        self._expect("{")
        found: list[Statement] = []
        while not self._take("}"):
            if self.ended:
                raise _NotUnderstoodError
            found += self.statement_or_rest()
        return tuple(found)

    def expression(self) -> Expression:
        """Parse an expression."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _NotUnderstoodError
        found = self._binary(0)
        if self._take("?"):
            then = self.expression()
            self._expect(":")
            found = ScriptOperation("?", (found, then, self.expression()))
        self._depth -= 1
        return found

    def _binary(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self._unary()
        found = self._binary(level + 1)
        while sign := self._take(*_LEVELS[level]):
            found = ScriptOperation(sign, (found, self._binary(level + 1)))
        return found

    def _unary(self) -> Expression:
        if sign := self._take("!", "-", "~", "*", "&"):
            return ScriptOperation(sign, (self._unary(),))
        if self._peek() == "(" and (type_ := self._type()):
            return Cast(type_, self._unary())
        return self._primary()

    def _type(self) -> str:
        """Parse a parenthesized type such as `(struct path *)`; consume nothing if it is not a type."""
        start = self._at
        self._next()
        words = []
        while self._kind() == "word" or self._peek() == "*":
            words.append(self._next())
        first = next(iter(words), "")
        known = _TYPE.fullmatch(first) or first in ("struct", "union", "enum", "const") or "*" in words[1:]
        if known and self._take(")") and (self._kind() in ("word", "number", "text") or self._peek() in "(*&-~!"):
            return " ".join(words)
        self._at = start
        return ""

    def _primary(self) -> Expression:
        found = self._atom()
        while True:
            if self._take("->", "."):
                found = Member(found, self._next())
            elif self._take("["):
                found = ScriptOperation("[]", (found, self.expression()))
                self._expect("]")
            else:
                return found

    def _atom(self) -> Expression:
        kind, text = self._kind(), self._next()
        if kind == "number":
            return ScriptNumber(_number(text))
        if kind == "text":
            found = text[1:-1]
            while self._kind() == "text":
                found += self._next()[1:-1]
            return String(found)
        if kind == "word":
            return self._named(text)
        if text == "(":
            inside = [self.expression()]
            while self._take(","):
                inside.append(self.expression())
            self._expect(")")
            return inside[0] if len(inside) == 1 else ScriptOperation("(,)", tuple(inside))
        raise _NotUnderstoodError

    def _named(self, word: str) -> Expression:
        if word.startswith("@"):
            return Map(word[1:], self._list("]") if self._take("[") else ())
        if word.startswith("$"):
            return ScriptVariable(word[1:])
        if self._take("("):
            return ScriptCall(word, self._list(")"))
        return Word(word)

    def _list(self, closing: str) -> tuple[Expression, ...]:
        found: list[Expression] = []
        while not self._take(closing):
            found.append(self.expression())
            if not self._take(","):
                self._expect(closing)
                break
        return tuple(found)


def _assigned(to: Expression, sign: str, value: Expression) -> Assign:
    if not isinstance(to, Map | ScriptVariable):
        raise _NotUnderstoodError
    return Assign(to, sign, value)


def _number(text: str) -> int:
    plain = text.replace("_", "")
    if plain[:2] in ("0x", "0X"):
        return int(plain, 16)
    digits, _, power = plain.partition("e")
    return int(digits + "0" * min(int(power or 0), 30))
