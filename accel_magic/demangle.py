"""Demangle C++ and Rust symbols: `ov::InferRequest::infer()` for `_ZN2ov12InferRequest5inferEv`.

Demangled names are for display and for matching user input. Data frames keep the symbol, which probes need.

A symbol comes from a file that anyone may have written, so demangling has limits on time and memory. C++ symbols are
demangled in a separate process (`demangler_process.py`), which starts with the first C++ symbol and ends with this
process; Rust symbols are demangled here. A symbol that exceeds the limits is left mangled.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import select
import subprocess
import sys
import threading
from collections import Counter
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from accel_magic import forks
from accel_magic.channel import pipes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

T = TypeVar("T")
_SYMBOL: Final = re.compile(r"\b_(?:Z(?:[\w$]|\.\.)|R\w)(?:[\w$]|\.\.)*", re.ASCII)
"""A symbol within other text; `$` and `..` are in those of Rust's older scheme."""
_WHOLE: Final = re.compile(r"_Z[\w.$]+", re.ASCII)
MANGLED: Final = ("_Z", "_R")
"""How the symbols of C++ and Rust begin."""
_PARENTHESIS: Final = re.compile(r"[()]")
_RUST_HASH: Final = re.compile(r"::h[0-9a-f]{16}$")
_RUST_SYMBOL: Final = re.compile(r"17h[0-9a-f]{16}E")
_RUST_ESCAPE: Final = re.compile(r"\$([A-Z]{1,2}|u[0-9a-f]{1,6})\$|\.\.|(?<![^:])_(?=\$)")
_RUST_SIGNS: Final = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}
_TAILS: Final = (" const", " volatile", " &&", " &")
_OF_TYPE: Final = "typeinfo name for "
_CLONE: Final = " [clone "
_LIBRARY: Final = "libstdc++.so.6"
_PROGRAM: Final = Path(__file__).with_name("demangler_process.py")
_LONGEST_SYMBOL: Final = 1 << 14
_REQUEST: Final = 1 << 15
"""Maximum size of a request, bytes: what fits into an empty pipe at once."""
_SILENCE_S: Final = 10.0
"""The process is killed after this much silence; its own limit is on CPU time."""
_MOST_KILLED: Final = 20
"""Symbols that may kill the process; after that, C++ symbols are left mangled."""
_MOST_KNOWN: Final = 1 << 16


def readable(text: str) -> str:
    """Replace every C++ and Rust symbol in a text with its qualified name; parameters are shown as `f()` or `f(…)`.

    Symbols that cannot be demangled are left as they are, as are C++ symbols if there is no C++ runtime library.
    """
    if "_Z" not in text and "_R" not in text:
        return text
    return _SYMBOL.sub(lambda symbol: _without_parameters(_demangled(symbol[0])), text)


def distinct(texts: Sequence[str]) -> list[str]:
    """Make texts readable; where different ones would look the same (overloads), parameters or symbols are kept."""
    learn(symbol for text in texts for symbol in _SYMBOL.findall(text))
    chosen = {text: readable(text) for text in texts}
    for name in (lambda text: _SYMBOL.sub(lambda symbol: _demangled(symbol[0]), text), lambda text: text):
        same = {shown for shown, count in Counter(chosen.values()).items() if count > 1}
        chosen = {text: name(text) if shown in same else shown for text, shown in chosen.items()}
    return [chosen[text] for text in texts]


def short_names(symbols: Iterable[str]) -> dict[str, str]:
    """A short name for each C++ symbol, different ones for different symbols: `kernels::add<…>`; others unchanged.

    Namespaces and template arguments are left out as far as the rest is no other symbol's.
    """
    given = list(symbols)
    whole = dict(zip(given, distinct(given), strict=True))
    chosen = dict(whole)
    for shorter in (_unqualified, _partly_qualified):
        found = {symbol: shorter(name) if symbol.startswith(MANGLED) else name for symbol, name in whole.items()}
        counts = Counter(found.values())
        chosen = {
            symbol: name if chosen[symbol] == whole[symbol] and counts[name] == 1 else chosen[symbol]
            for symbol, name in found.items()
        }
    return chosen


def _unqualified(name: str, parts: int = 1) -> str:
    """The last parts of a qualified name, with `<…>` for template arguments."""
    plain, depth = "", 0
    for sign in name:
        depth += (sign == "<") - (sign == ">")
        if sign == "<" and depth == 1:
            plain += "<…>"
        elif not depth and sign != ">":
            plain += sign
    if depth or "{" in plain or "(" in plain:  # operators and lambdas
        return name
    return "::".join(plain.split("::")[-parts:])


def _partly_qualified(name: str) -> str:
    return _unqualified(name, 2)


def signature(symbol: str) -> str:
    """Name of a C++ function with its parameters, as `add(int, int)`, or of a Rust function; others unchanged."""
    return _demangled(symbol).removeprefix("void ") if symbol.startswith(MANGLED) else symbol


def is_rust(symbol: str) -> bool:
    """Whether a symbol is that of a Rust function, in either of its schemes."""
    return symbol.startswith("_R") or (symbol.startswith("_ZN") and _RUST_SYMBOL.search(symbol) is not None)


@lru_cache(maxsize=_MOST_KNOWN)
def function_name(symbol: str) -> str:
    """Name of a symbol's function: for C++ and Rust without parameters and hash, for C the symbol itself."""
    if not symbol.startswith(MANGLED):
        return symbol
    return _without_parameters(_demangled(symbol)).removesuffix("()").removesuffix("(…)")


def plain_name(function: str) -> str:
    """Name of the function that a compiler's clone (`ivpu_cmdq_fini.isra.0`) was made from."""
    return function.partition(".")[0]


def means(pattern: str, symbol: str) -> bool:
    """Whether a glob matches a symbol, either mangled or demangled, with or without parameters."""
    if pattern == "*" or fnmatchcase(symbol, pattern):
        return True
    shown = _demangled(symbol).removeprefix("void ")  # a template's symbol includes its return type
    return fnmatchcase(shown, pattern) or fnmatchcase(shown.partition("(")[0], pattern)


def learn(symbols: Iterable[str]) -> None:
    """Demangle the C++ symbols among these that are not cached yet, in batches."""
    with _lock:
        new = [symbol for symbol in dict.fromkeys(symbols) if symbol not in _known and _may_be_read(symbol)]
        if len(_known) + len(new) > _MOST_KNOWN:
            _known.clear()
        while new and _killed < _MOST_KILLED:
            names = _ask(new[: _that_fit(new)])
            _known.update((symbol, _decoded(name) or symbol) for symbol, name in zip(new, names, strict=False))
            new = new[len(names) :]
        _known.update((symbol, symbol) for symbol in new)


def helper_pid() -> int | None:
    """Process id of the demangler, so that its own hits can be excluded; None while it is not running."""
    return _helper.pid if _helper is not None else None


def end() -> None:
    """Kill the process; the next symbol starts a new one."""
    global _helper
    helper, _helper = _helper, None
    if helper is not None:
        helper.kill()
        _close(helper)
        helper.wait()


def _demangled(symbol: str) -> str:
    if symbol.startswith("_R"):
        return _rust_path(symbol) or symbol
    name = _known.get(symbol)
    if name is None:
        learn((symbol,))
        name = _known.get(symbol, symbol)
    return name


def _decoded(name: str) -> str:
    """Name of a function without the hash and escapes of Rust's older scheme; of a kernel of SYCL, that of its type."""
    path, hashed = _RUST_HASH.subn("", name.removeprefix(_OF_TYPE))
    return _RUST_ESCAPE.sub(_sign, path) if hashed else path


def _sign(escape: re.Match[str]) -> str:
    code = escape[1]
    if code is None:
        return "::" if escape[0] == ".." else ""
    if code in _RUST_SIGNS:
        return _RUST_SIGNS[code]
    point = int(code[1:], 16) if code.startswith("u") else 0
    return chr(point) if 0x20 <= point < 0x110000 else escape[0]


def _may_be_read(symbol: str) -> bool:
    return len(symbol) <= _LONGEST_SYMBOL and _WHOLE.fullmatch(symbol) is not None


def _that_fit(symbols: Sequence[str]) -> int:
    """Count the symbols that fit into a request; at least one."""
    size = 0
    for count, symbol in enumerate(symbols):
        size += len(symbol) + 1
        if size > _REQUEST and count:
            return count
    return len(symbols)


def _ask(symbols: Sequence[str]) -> list[str]:
    """Demangle the symbols of one request, in order; "" for a text that is not a symbol.

    If a symbol killed the process, the list ends with "" for it. If no process can be started, as on systems without
    the GNU C++ library, all names are "".
    """
    global _helper, _killed  # noqa: PLW0603 - one for the life of this process
    if sys.platform != "linux":
        return [""] * len(symbols)
    try:
        if _helper is None or _helper.poll() is not None:
            end()
            _helper = _started()
        names = _answers(_helper, "\n".join(symbols).encode(), len(symbols))
    except OSError:
        end()
        return [""] * len(symbols)
    except BaseException:
        end()  # an answer may be half read
        raise
    if len(names) < len(symbols):
        end()
        _killed += 1
        names.append("")
    return names


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(_PROGRAM), _LIBRARY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # interrupting a cell must not interrupt it
    )


def _answers(helper: subprocess.Popen[bytes], request: bytes, count: int) -> list[str]:
    """Send a request and receive its answers; fewer than `count` if the process died on the next symbol."""
    to_helper, answers = pipes(helper)
    with contextlib.suppress(BrokenPipeError):  # it died before it read the request
        to_helper.write(len(request).to_bytes(4, "little") + request)
        to_helper.flush()
    ready = select.poll()  # select() does not support descriptors above 1,023
    ready.register(answers, select.POLLIN)
    received = b""
    while received.count(b"\n") < count:
        part = os.read(answers.fileno(), _REQUEST) if ready.poll(_SILENCE_S * 1000) else b""
        if not part:
            break
        received += part
    return [line.decode(errors="replace") for line in received.split(b"\n")[:-1]]


def _close(helper: subprocess.Popen[bytes]) -> None:
    for pipe in pipes(helper):
        with contextlib.suppress(OSError):  # buffered data of an unread request
            pipe.close()


_known: dict[str, str] = {}
_killed = 0
_helper: subprocess.Popen[bytes] | None = None
_lock = threading.Lock()


def _forget_in_child() -> None:
    """In a forked child: drop the connection; the process belongs to the parent."""
    global _helper, _lock  # noqa: PLW0603
    _lock = threading.Lock()
    if _helper is not None:
        _close(_helper)
        _helper = None


atexit.register(end)
forks.in_child(_forget_in_child)


def _without_tails(name: str) -> str:
    """Remove qualifiers and clone suffixes that follow the parameters."""
    while True:
        tail = next((tail for tail in _TAILS if name.endswith(tail)), "")
        clone = name.rfind(_CLONE) if name.endswith("]") else -1
        if not tail and clone < 0:
            return name
        name = name.removesuffix(tail) if tail else name[:clone]


def _without_parameters(name: str) -> str:
    head = _without_tails(name)
    if not head.endswith(")"):
        return name
    depth = 0
    for found in reversed(list(_PARENTHESIS.finditer(head))):
        depth += 1 if found[0] == ")" else -1
        if depth == 0:
            place = found.start()
            return head[:place] + ("()" if place == len(head) - 2 else "(…)")
    return name


_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BASIC_TYPES: Final = (
    "a=i8 b=bool c=char d=f64 e=str f=f32 h=u8 i=isize j=usize l=i32 m=u32 n=i128 o=u128 p=_ s=i16 t=u16 u=() v=..."
    " x=i64 y=u64 z=!"
)
_BASIC: Final = {text[0]: text[2:] for text in _BASIC_TYPES.split()}
_POINTERS: Final = {"R": "&", "Q": "&mut ", "P": "*const ", "O": "*mut "}
_SPECIAL: Final = {"C": "{closure}", "S": "{shim}"}
_MOST_WORK: Final = 1 << 15
"""Limit on parsing steps plus name characters; back references are parsed again each time."""
_DEEPEST: Final = 150
_LONGEST_CODED: Final = 256


@lru_cache(maxsize=_MOST_KNOWN)
def _rust_path(symbol: str) -> str | None:
    """Path of the function that a Rust v0 symbol (`_R...`, RFC 2603) names, such as `std::thread::park`.

    Generic arguments are omitted. None if it is not a Rust v0 symbol, has an unknown form, or exceeds the limits.
    """
    if not symbol.startswith("_R") or len(symbol) > _LONGEST_SYMBOL:
        return None
    try:
        return _RustReader(symbol.partition(".")[0][2:]).path()
    except (IndexError, ValueError, KeyError, RecursionError):
        return None


class _RustReader:
    """Recursive-descent parser. Raises ValueError, IndexError or KeyError if a symbol is damaged or too large."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._work_left = _MOST_WORK
        self._types: dict[str, Callable[[], str]] = {
            "A": self._array,
            "S": lambda: f"[{self._type()}]",
            "T": lambda: f"({', '.join(self._until_end(self._type))})",
            "F": self._signature,
            "D": self._dynamic,
            "B": lambda: self._back(self._type),
        }

    def path(self) -> str:
        """Parse a path."""
        return self._deeper(self._path)

    def _path(self) -> str:
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
            self.path()  # module of the impl block
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
        return self._deeper(self._one_type)

    def _one_type(self) -> str:
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
        self._work(self._at - start + length)
        self._take("_")
        name = self._text[self._at : self._at + length]
        if len(name) < length or (punycode and length > _LONGEST_CODED):
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
        self._work(len(digits))
        value = 0
        for digit in digits:
            value = value * 62 + _DIGITS.index(digit)
        return value + 1 if digits else 0

    def _back(self, read: Callable[[], T]) -> T:
        """Parse what an earlier position holds."""
        before = self._at
        place = self._number()
        if place >= before - 1:
            raise ValueError("a back reference points forward")
        after, self._at = self._at, place
        found = read()
        self._at = after
        return found

    def _deeper(self, read: Callable[[], str]) -> str:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("it nests too deeply")
        found = read()
        self._depth -= 1
        return found

    def _work(self, amount: int) -> None:
        self._work_left -= amount
        if self._work_left < 0:
            raise ValueError("it is too large")

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
        self._work(1)
        self._at += 1
        return self._text[self._at - 1]
