"""What adapters need from PTX text: a module's entries, their parameters, its target and its variables."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$%]+)\s*(?:\(([^()]*)\))?")
_PARAMETER = re.compile(r"\.param\s+(?P<before>.*?)\.(?P<kind>[bsuf])(?P<bits>\d+)\s+(?P<after>.*)", re.DOTALL)
_LENGTH = re.compile(r"\[\s*(\d+)\s*\]")
_VARIABLE = re.compile(
    r"^[ \t]*(\.(?:visible|weak|extern|common)\s+)?\.(?:global|const)\s+([^;=]*)([;=])", re.MULTILINE
)
_TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class EntryParameter:
    """A parameter of an entry.

    Attributes:
        kind: Letter of its PTX type: b, s, u or f.
        size: Total bytes.
        array: Whether it is an array (a struct passed by value).

    """

    kind: str
    size: int
    array: bool = False


def entries(ptx: str) -> dict[str, tuple[EntryParameter, ...]]:
    """Find the entries (kernels) of a module and their parameters, in the order of the text."""
    return {
        match[1]: tuple(_parameter(text) for text in (match[2] or "").split(",") if text.strip())
        for match in _ENTRY.finditer(_COMMENT.sub(" ", ptx))
    }


def architecture(ptx: str) -> str:
    """Return the module's target, such as `sm_80`; '' if it has none."""
    match = _TARGET.search(ptx)
    return match[1] if match else ""


def variables(ptx: str) -> tuple[str, ...]:
    """List the variables that keep state across launches or that the host may set; a copy of the module has its own.

    Initialized variables without external linkage (strings and tables) are omitted.
    """
    found = _VARIABLE.findall(_COMMENT.sub(" ", ptx))
    return tuple(_LENGTH.sub("", rest).split()[-1] for linkage, rest, end in found if linkage or end == ";")


def _parameter(text: str) -> EntryParameter:
    match = _PARAMETER.search(text)
    if match is None:  # opaque types: .texref, .samplerref, .surfref are 64-bit handles
        return EntryParameter("b", 8)
    length = _LENGTH.search(match["after"])
    size = int(match["bits"]) // 8
    return EntryParameter(match["kind"], size * int(length[1]) if length else size, array=length is not None)
