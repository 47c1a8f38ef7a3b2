"""Rust's newer symbols (`_R...`, RFC 2603) as paths: `std::thread::park`, without generic arguments.

The C++ runtime, which reads C++'s symbols and Rust's older ones, does not know them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BASIC_TYPES: Final = (
    "a=i8 b=bool c=char d=f64 e=str f=f32 h=u8 i=isize j=usize l=i32 m=u32 n=i128 o=u128 p=_ s=i16 t=u16 u=() v=..."
    " x=i64 y=u64 z=!"
)
_BASIC: Final = {text[0]: text[2:] for text in _BASIC_TYPES.split()}
_POINTERS: Final = {"R": "&", "Q": "&mut ", "P": "*const ", "O": "*mut "}
_SPECIAL: Final = {"C": "{closure}", "S": "{shim}"}
_DEEPEST: Final = 200


def path_of(symbol: str) -> str | None:
    """Path of the function that a symbol stands for; None where it is none of Rust's, or of a form not known."""
    if not symbol.startswith("_R"):
        return None
    try:
        return _Reader(symbol.partition(".")[0][2:]).path()
    except (IndexError, ValueError, KeyError):
        return None


class _Reader:
    """Reads from a place onwards. Raises ValueError, IndexError or KeyError where a symbol is no good."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._types: dict[str, Callable[[], str]] = {
            "A": self._array,
            "S": lambda: f"[{self._type()}]",
            "T": lambda: f"({', '.join(self._until_end(self._type))})",
            "F": self._signature,
            "D": self._dynamic,
            "B": lambda: self._back(self._type),
        }

    def path(self) -> str:
        """Read a path."""
        tag = self._next()
        if tag == "B":
            return self._back(self.path)
        if tag == "C":
            return self._identifier()
        if tag == "N":
            return self._nested()
        if tag == "I":
            path = self.path()
            self._until_end(self._argument)
            return path
        if tag in "MX":
            self._disambiguator()
            self.path()  # where the impl stands
        elif tag != "Y":
            raise ValueError(tag)
        type_ = self._type()
        return f"<{type_}>" if tag == "M" else f"<{type_} as {self.path()}>"

    def _nested(self) -> str:
        space = self._next()
        path, name = self.path(), self._identifier()
        name = name or _SPECIAL.get(space, "")
        return f"{path}::{name}" if name else path

    def _type(self) -> str:
        tag = self._next()
        if tag in _BASIC:
            return _BASIC[tag]
        if tag in _POINTERS:
            if tag in "RQ" and self._take("L"):
                self._number()
            return _POINTERS[tag] + self._type()
        read = self._types.get(tag)
        if read is not None:
            return read()
        self._at -= 1
        return self.path()

    def _array(self) -> str:
        element = self._type()
        self._constant()
        return f"[{element}; _]"

    def _signature(self) -> str:
        self._binder()
        self._take("U")
        if self._take("K") and not self._take("C"):
            self._plain_identifier()
        arguments = self._until_end(self._type)
        result = self._type()
        return f"fn({', '.join(arguments)})" + ("" if result == "()" else f" -> {result}")

    def _dynamic(self) -> str:
        self._binder()
        bounds = self._until_end(self._bound)
        self._expect("L")
        self._number()
        return f"dyn {' + '.join(bounds)}"

    def _bound(self) -> str:
        path = self.path()
        while self._take("p"):
            self._plain_identifier()
            self._type()
        return path

    def _argument(self) -> str:
        if self._take("L"):
            self._number()
            return "'_"
        if self._take("K"):
            self._constant()
            return "_"
        return self._type()

    def _constant(self) -> None:
        if self._take("B"):
            self._back(self._constant)
        elif not self._take("p"):
            _BASIC[self._next()]
            self._at = self._text.index("_", self._at) + 1

    def _identifier(self) -> str:
        self._disambiguator()
        return self._plain_identifier()

    def _plain_identifier(self) -> str:
        punycode = self._take("u")
        start = self._at
        while self._text[self._at : self._at + 1].isdigit() and (self._at == start or self._text[start] != "0"):
            self._at += 1
        length = int(self._text[start : self._at])
        self._take("_")
        name = self._text[self._at : self._at + length]
        if len(name) < length:
            raise ValueError(name)
        self._at += length
        if not punycode:
            return name
        plain, _, coded = name.rpartition("_")
        return f"{plain}-{coded}".encode().decode("punycode") if plain else coded.encode().decode("punycode")

    def _disambiguator(self) -> None:
        if self._take("s"):
            self._number()

    def _binder(self) -> None:
        if self._take("G"):
            self._number()

    def _number(self) -> int:
        end = self._text.index("_", self._at)
        digits, self._at = self._text[self._at : end], end + 1
        value = 0
        for digit in digits:
            value = value * 62 + _DIGITS.index(digit)
        return value + 1 if digits else 0

    def _back(self, read: Callable[[], T]) -> T:
        """Read again what stands at an earlier place."""
        before = self._at
        place = self._number()
        if place >= before - 1 or self._depth >= _DEEPEST:
            raise ValueError("a reference that does not lead back")
        after, self._at = self._at, place
        self._depth += 1
        found = read()
        self._depth -= 1
        self._at = after
        return found

    def _until_end(self, read: Callable[[], str]) -> list[str]:
        found = []
        while not self._take("E"):
            found.append(read())
        return found

    def _take(self, letter: str) -> bool:
        there = self._text[self._at : self._at + 1] == letter
        self._at += there
        return there

    def _expect(self, letter: str) -> None:
        if not self._take(letter):
            raise ValueError(letter)

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1]
