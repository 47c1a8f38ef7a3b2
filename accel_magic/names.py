"""C++ functions under the names that people gave them: `ov::InferRequest::infer()` for `_ZN2ov12InferRequest5inferEv`.

For showing, and for what users write. Data frames keep the symbol, which is what a probe is written with.
"""

from __future__ import annotations

import ctypes
import re
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from accel_magic.rust_names import path_of

if TYPE_CHECKING:
    from collections.abc import Callable

_SYMBOL = re.compile(r"\b_Z\w+")
_PARENTHESIS = re.compile(r"[()]")
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")
_AFTER = re.compile(r"(?: (?:const|volatile|&&?)| \[clone [^\]]*\])+$")


def readable(text: str) -> str:
    """Replace every C++ symbol in a text by its qualified name, parameters left out: `f()`, `f(…)` where it has some.

    A symbol that cannot be read stays as it is, and so do all of them where there is no C++ runtime library.
    """
    return _SYMBOL.sub(lambda symbol: _without_parameters(_demangled(symbol[0])), text) if "_Z" in text else text


@lru_cache(maxsize=1 << 16)
def function_name(symbol: str) -> str:
    """Name of the function that a symbol stands for: of C++ and Rust without parameters and hash, of C the symbol."""
    if not symbol.startswith("_Z"):
        return path_of(symbol) or symbol
    name = _without_parameters(_demangled(symbol)).removesuffix("()").removesuffix("(…)")
    return _RUST_HASH.sub("", name)


def means(pattern: str, symbol: str) -> bool:
    """Whether a glob means a symbol, as it is or as C++ reads it, with its parameters or without."""
    if pattern == "*" or fnmatchcase(symbol, pattern):
        return True
    shown = _demangled(symbol).removeprefix("void ")  # of a template the symbol holds the result's type too
    return fnmatchcase(shown, pattern) or fnmatchcase(shown.partition("(")[0], pattern)


@cache
def _demangled(symbol: str) -> str:
    demangle = _demangler()
    return (demangle(symbol) if demangle else None) or symbol


@cache
def _demangler() -> Callable[[str], str | None] | None:
    """The runtime library's own `__cxa_demangle`, part of the C++ ABI; None where there is no such library."""
    try:
        library, free = ctypes.CDLL("libstdc++.so.6"), ctypes.CDLL(None).free
        function = library["__cxa_demangle"]
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    function.restype = ctypes.c_void_p
    free.argtypes, free.restype = [ctypes.c_void_p], None

    def demangle(symbol: str) -> str | None:
        status = ctypes.c_int()
        answer = function(symbol.encode(), None, None, ctypes.byref(status))
        if not answer:
            return None
        text = ctypes.string_at(answer).decode(errors="replace")
        free(answer)
        return text

    return demangle


def _without_parameters(name: str) -> str:
    head = _AFTER.sub("", name)
    if not head.endswith(")"):
        return name
    depth = 0
    for found in reversed(list(_PARENTHESIS.finditer(head))):
        depth += 1 if found[0] == ")" else -1
        if depth == 0:
            place = found.start()
            return head[:place] + ("()" if place == len(head) - 2 else "(…)")
    return name
