"""`--args 'size=arg1:u64,handle=arg1[12]:u32@return'`: parse extra columns into `Capture`s."""

from __future__ import annotations

import re
from typing import Final

from accel_magic.errors import ProbeError
from accel_magic.probes.globs import near
from accel_magic.probes.plan import Capture

ARGUMENT_NAMES: Final = tuple(f"arg{i}" for i in range(12))
"""Six in registers and six on the stack."""
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
"""Columns that all events have; a capture cannot use one of these names."""

_FORM = "NAME=SOURCE:TYPE, e.g. --args 'size=arg1:u64,path=arg0:str,flags=arg1[8]:u32'"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MEMORY = re.compile(r"(.*?)\s*\[\s*(\d+)\s*\]", re.ASCII)
_MEANT = re.compile(
    rf"(?:([A-Za-z_]\w*)=)?({'|'.join((*ARGUMENT_NAMES[::-1], 'retval'))})(?::({'|'.join(TYPES)}))?", re.ASCII
)
"""A column without a name or type."""
_C_TYPES = {
    **dict.fromkeys(("int", "int32", "int32_t", "i32"), "s32"),
    **dict.fromkeys(("uint", "unsigned", "uint32", "uint32_t"), "u32"),
    **dict.fromkeys(("long", "int64", "int64_t", "i64", "ssize_t"), "s64"),
    **dict.fromkeys(("ulong", "uint64", "uint64_t", "size_t", "ptr", "pointer", "hex"), "u64"),
    **dict.fromkeys(("char", "char*", "string", "text"), "str"),
    **dict.fromkeys(("bool", "uint8", "uint8_t", "byte"), "u8"),
}
"""Types of C and other tools, and ours."""
_AT_RETURN = "@return"
_LARGEST_OFFSET = 65535


def parse(text: str) -> tuple[Capture, ...]:
    """Parse the text of `--args`; blank text gives no captures.

    Raises:
        ProbeError: A part is not `NAME=SOURCE[OFFSET]:TYPE@return`, or a name is taken or repeated.

    """
    if not text.strip():
        return ()
    captures = tuple(_parse_one(part.strip()) for part in text.split(","))
    seen: set[str] = set()
    for capture in captures:
        if capture.name in seen:
            raise ProbeError(
                f"--args names the column {capture.name!r} twice",
                fix="give each column a different name",
                code="capture.name-twice",
            )
        seen.add(capture.name)
    return captures


def _parse_one(part: str) -> Capture:
    name, equals, rest = (piece.strip() for piece in part.partition("="))
    source, colon, type_ = (piece.strip() for piece in rest.partition(":"))
    if not (equals and colon):
        meant = _MEANT.fullmatch(part)
        right = f"write {meant[1] or meant[2]}={meant[2]}:{meant[3] or 'u64'} instead of {part}" if meant else ""
        fix = f"{right}, of the form {_FORM}" if right else f"write {_FORM}"
        raise ProbeError(f"--args {part!r} is not a valid column", fix=fix, code="capture.bad-syntax")
    if not _NAME.fullmatch(name):
        raise ProbeError(
            f"--args: {name!r} is not a valid column name",
            why="a name has letters, digits and _, and does not start with a digit",
            fix=f"write {_FORM}",
            code="capture.bad-name",
        )
    if name in DEFAULT_COLUMNS:
        raise ProbeError(
            f"--args: events already have a column named {name!r}",
            fix=f"write {name}_value={rest} instead of {part}",
            code="capture.name-taken",
        )
    source, offset = _memory(source)
    at_return = type_.endswith(_AT_RETURN)
    type_ = type_.removesuffix(_AT_RETURN).rstrip()
    if source not in SOURCES:
        raise ProbeError(
            f"--args: unknown source {source!r}",
            fix=f"write {name}={(near(source, SOURCES, 1) or SOURCES)[0]}:{type_} instead of {part}; there are arg0 to "
            "arg11 and retval",
            code="capture.no-source",
        )
    if type_ not in TYPES:
        raise ProbeError(
            f"--args: unknown type {type_!r}",
            fix=f"write {name}={rest.rpartition(':')[0].strip()}:{_type_like(type_)} instead of {part}; "
            f"the types are {', '.join(TYPES)}",
            code="capture.no-type",
        )
    if at_return and source != "retval" and offset is None:
        raise ProbeError(
            f"--args {part!r}: arguments are read at entry, not at return",
            why="only values in memory can change until the call returns",
            fix=f"write {name}={source}[0]:{type_}{_AT_RETURN} instead of {part} for the memory that {source} points "
            f"to, or remove {_AT_RETURN}",
            code="capture.not-at-return",
        )
    return Capture(name, source, type_, offset, at_return)


def _type_like(type_: str) -> str:
    return _C_TYPES.get(type_.replace(" ", "").lower()) or (near(type_, TYPES, 1) or ["u64"])[0]


def _memory(source: str) -> tuple[str, int | None]:
    """Split `arg1[8]` into the value that holds an address and the offset from there."""
    found = _MEMORY.fullmatch(source)
    if not found:
        return source, None
    offset = int(found[2])
    if offset > _LARGEST_OFFSET:
        raise ProbeError(
            f"--args: the offset [{offset}] is too large",
            why="the maximum is 65535 bytes",
            fix="use a smaller offset",
            code="capture.bad-offset",
        )
    return found[1], offset
