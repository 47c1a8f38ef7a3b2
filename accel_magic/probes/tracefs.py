"""Tracepoints according to tracefs: categories, events, and record fields."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from accel_magic.errors import MachineError, ProbeError
from accel_magic.probes.plan import POINTED, TracepointField

_MOUNTS = ("sys/kernel/tracing", "sys/kernel/debug/tracing")
_ROOT = Path("/")
# Records of ftrace's own tracers have formats, but programs cannot be attached to them.
_NOT_TRACEPOINTS = "ftrace"
_KEPT_BYTES = 256
_COMMON_END = 8

_ID = re.compile(r"^ID:\s*(\d+)\s*$", re.MULTILINE)
_FIELD = re.compile(r"^\s*field:([^;]*);\s*offset:(\d+);\s*size:(\d+);(?:\s*signed:(\d+);)?", re.MULTILINE)
_DECLARATION = re.compile(r"(?P<type>[\w\s*]*[\s*])(?P<name>[A-Za-z_]\w*)(?P<array>\[[^\]]*\])?")
_TEXT_POINTER = re.compile(r"(?:const\s+)?char\s*\*\s*(?:const\s+)?(?P<name>[A-Za-z_]\w*)")
_LOCATED_STRING = re.compile(r"__data_loc\s+(?:const\s+)?char\s*\[\]\s*(?P<name>[A-Za-z_]\w*)")
# System call argument slots are 8 bytes wide and declared unsigned whatever the argument's type. Not every caller
# sign-extends a negative int there, so arguments are read with their C type (little-endian: same offset).
_SIGNED_ARGUMENTS = {
    **dict.fromkeys(("int", "pid_t", "key_t", "clockid_t", "timer_t", "mqd_t"), 4),
    "short": 2,
}


@dataclass(frozen=True)
class EventFormat:
    """Content of one `format` file.

    `fields` are those that can become columns, in file order: integers and text that end within 256 bytes, without
    common fields, other arrays and structs. `record_end` is the end in bytes of the last field of any kind; a
    program may not read beyond it.
    """

    id: int
    fields: tuple[TracepointField, ...]
    record_end: int


def find(root: Path = _ROOT) -> Path:
    """Find where tracefs is mounted.

    Args:
        root: Folder used as `/`.

    Raises:
        MachineError: It is not mounted, or not readable by this user.

    """
    denied = None
    for mount in _MOUNTS:
        events = root / mount / "events"
        try:
            with os.scandir(events):
                return events.parent
        except PermissionError:
            denied = events
        except (FileNotFoundError, NotADirectoryError):
            continue
    if denied:
        raise MachineError(
            f"cannot list tracepoints: {denied} is not readable by this user",
            why="tracefs belongs to root",
            fix="have the administrator run once: sudo accel-magic broker install; or run Jupyter as root. "
            "%accel_doctor shows what is missing, and what works without privilege",
            code="machine.tracefs-unreadable",
        )
    raise MachineError(
        "tracefs is not mounted",
        why="tracepoints and their fields are read from it",
        fix="mount -t tracefs tracefs /sys/kernel/tracing",
        code="machine.no-tracefs",
    )


def categories(tracefs: Path) -> list[str]:
    """Categories of tracepoints, sorted."""
    return [name for name in _folders(tracefs / "events") if name != _NOT_TRACEPOINTS]


def events(tracefs: Path, category: str) -> list[str]:
    """Events of a category, sorted; empty if there is no such category."""
    try:
        return _folders(tracefs / "events" / category)
    except FileNotFoundError:
        return []


def has_event(tracefs: Path, category: str, event: str) -> bool:
    """Whether there is this tracepoint; much faster than looking for it among all."""
    names = {category, event}
    if names & {"", ".", "..", _NOT_TRACEPOINTS} or any("/" in name for name in names):
        return False
    return os.path.exists(tracefs / "events" / category / event / "format")  # noqa: PTH110 - False without the right


def read_format(tracefs: Path, category: str, event: str) -> EventFormat:
    """Read an event's id and record layout.

    Raises:
        ProbeError: There is no such event, or its format cannot be parsed.
        MachineError: It is not readable by this user.

    """
    try:
        text = (tracefs / "events" / category / event / "format").read_text()
    except PermissionError as error:
        raise MachineError(
            f"cannot read the fields of {category}:{event}",
            why=str(error),
            fix="run as root; see %accel_doctor",
            code="machine.tracefs-unreadable",
        ) from error
    except OSError as error:
        raise ProbeError(
            f"there is no tracepoint {category}:{event}", why=str(error), code="probe.no-tracepoint"
        ) from error
    return parse_format(text, syscall=category == "syscalls")


def parse_format(text: str, *, syscall: bool = False) -> EventFormat:
    """Parse the text of a `format` file.

    Args:
        text: The file.
        syscall: The event is a system call's entry or exit; programs then see only its argument slots, not the
            strings that newer kernels record after them.

    Raises:
        ProbeError: It has no ID.

    """
    identity = _ID.search(text)
    if not identity:
        raise ProbeError("a tracepoint's format has no ID", why=text[:80], code="probe.bad-tracepoint-format")
    fields = []
    end = _COMMON_END
    for declaration, *numbers in _FIELD.findall(text):
        offset, size, signed = (int(number or 0) for number in numbers)
        if syscall and declaration.startswith(("__data_loc", "__rel_loc")):
            continue
        end = max(end, offset + size)
        field = _field(declaration, offset, size, signed=bool(signed), syscall=syscall)
        if field and field.offset + field.size <= _KEPT_BYTES:
            fields.append(replace(field, type=POINTED) if not syscall and _is_shown_text(declaration, text) else field)
    return EventFormat(int(identity[1]), tuple(fields), end)


def _is_shown_text(declaration: str, text: str) -> bool:
    """Whether a field points to kernel text: it is declared as char *, and the event's print format shows it as %s."""
    pointer = _TEXT_POINTER.fullmatch(declaration)
    printed = text.partition("print fmt:")[2]
    return pointer is not None and "%s" in printed and re.search(rf"REC->{pointer['name']}\b", printed) is not None


def _field(declaration: str, offset: int, size: int, *, signed: bool, syscall: bool) -> TracepointField | None:
    if located := _LOCATED_STRING.fullmatch(declaration):
        return TracepointField(located["name"], "string", offset, size)
    parsed = _DECLARATION.fullmatch(declaration)
    if not parsed or parsed["name"].startswith("common_") or declaration.startswith(("__data_loc", "__rel_loc")):
        return None
    name, base = parsed["name"], parsed["type"].replace("const ", "").strip()
    if parsed["array"]:
        return TracepointField(name, f"char[{size}]", offset, size) if base == "char" and size else None
    if base.startswith(("struct ", "union ")) and not base.endswith("*"):
        return None
    if syscall and not signed and size == 8 and base in _SIGNED_ARGUMENTS:
        size = _SIGNED_ARGUMENTS[base]
        signed = True
    return TracepointField(name, f"{'s' if signed else 'u'}{size * 8}", offset, size) if size in (1, 2, 4, 8) else None


def _folders(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except PermissionError as error:
        raise MachineError(
            f"{path} cannot be read",
            why=str(error),
            fix="run as root; see %accel_doctor",
            code="machine.tracefs-unreadable",
        ) from error
