"""`--args 'size=arg1:u64,handle=arg1[12]:u32@return'`: extra columns, text to Capture."""

from __future__ import annotations

import re
from typing import Final

from accel_magic.errors import ProbeError
from accel_magic.probes.plan import Capture

ARGUMENT_NAMES: Final = tuple(f"arg{i}" for i in range(12))
"""Six in registers, and as many on the stack."""
SOURCES: Final = (*ARGUMENT_NAMES, "retval")
TYPES: Final = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "str")
DEFAULT_COLUMNS: Final = (
    "time_ns",
    "point",
    "probe",
    "function",
    "pid",
    "tid",
    "cpu",
    "comm",
    "duration_ns",
    "retval",
)
"""Columns that events have anyway; a capture may not be called like one."""

_FORM = "NAME=SOURCE:TYPE, e.g. --args 'size=arg1:u64,path=arg0:str,flags=arg1[8]:u32'"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MEMORY = re.compile(r"(.*?)\s*\[\s*(\d+)\s*\]", re.ASCII)
_AT_RETURN = "@return"
_LARGEST_OFFSET = 65535


def parse(text: str) -> tuple[Capture, ...]:
    """Parse the text of `--args`; blank text gives no captures.

    Raises:
        ProbeError: A part is not `NAME=SOURCE[OFFSET]:TYPE@return`, or a name is taken or given twice.

    """
    if not text.strip():
        return ()
    captures = tuple(_parse_one(part.strip()) for part in text.split(","))
    seen: set[str] = set()
    for capture in captures:
        if capture.name in seen:
            raise ProbeError(
                f"--args names the column {capture.name!r} twice",
                fix="give each column its own name",
                code="capture.name-twice",
            )
        seen.add(capture.name)
    return captures


def _parse_one(part: str) -> Capture:
    name, equals, rest = (piece.strip() for piece in part.partition("="))
    source, colon, type_ = (piece.strip() for piece in rest.partition(":"))
    if not (equals and colon):
        raise ProbeError(f"--args {part!r} is not a column", fix=f"write {_FORM}", code="capture.bad-syntax")
    if not _NAME.fullmatch(name):
        raise ProbeError(
            f"--args: {name!r} cannot be a column's name",
            why="a name is letters, digits and _, and starts with no digit",
            fix=f"write {_FORM}",
            code="capture.bad-name",
        )
    if name in DEFAULT_COLUMNS:
        raise ProbeError(
            f"--args: events have a column {name!r} already",
            fix=f"choose another name than {name!r}",
            code="capture.name-taken",
        )
    source, offset = _memory(source)
    at_return = type_.endswith(_AT_RETURN)
    type_ = type_.removesuffix(_AT_RETURN).rstrip()
    if source not in SOURCES:
        raise ProbeError(
            f"--args: there is no value called {source!r}",
            fix=f"use one of {', '.join(SOURCES)}",
            code="capture.no-source",
        )
    if type_ not in TYPES:
        raise ProbeError(
            f"--args: there is no type called {type_!r}", fix=f"use one of {', '.join(TYPES)}", code="capture.no-type"
        )
    if at_return and source != "retval" and offset is None:
        raise ProbeError(
            f"--args {part!r}: an argument is known at entry",
            why="only what lies in memory can be another at return",
            fix=f"write {name}={source}[OFFSET]:{type_}{_AT_RETURN}, or leave out {_AT_RETURN}",
            code="capture.not-at-return",
        )
    return Capture(name, source, type_, offset, at_return)


def _memory(source: str) -> tuple[str, int | None]:
    """Split `arg1[8]` into the value that holds an address and the offset from there."""
    found = _MEMORY.fullmatch(source)
    if not found:
        return source, None
    offset = int(found[2])
    if offset > _LARGEST_OFFSET:
        raise ProbeError(
            f"--args: [{offset}] is too far",
            why="it is a distance in bytes",
            fix="give 65535 or less",
            code="capture.bad-offset",
        )
    return found[1], offset
