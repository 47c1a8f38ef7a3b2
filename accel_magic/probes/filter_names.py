"""Which values a filter may name at a probe point, and the C that reads each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from accel_magic.probes.captures import ARGUMENT_NAMES
from accel_magic.probes.plan import FUNCTION_KINDS, RETURN_KINDS, THREAD_KINDS, UNREADABLE, Field, Kind, UsdtArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.probes.plan import ProbePoint

_COMM_BYTES = 16
_CHARS = re.compile(r"char\[(\d+)\]")
_INTEGERS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
PREFIX_FIELD = "args."


@dataclass(frozen=True)
class Leaf:
    """A number: `code` is one accessor. `at_entry`: known only where the call starts; `at_exit`: only at its return."""

    code: str
    signed: bool
    at_entry: bool = False
    at_exit: bool = False


@dataclass(frozen=True)
class Text:
    """A text of at most `longest` bytes: the task's name, or `size` bytes inline in the record at `offset`."""

    name: str
    longest: int
    offset: int = 0
    size: int = 0

    @property
    def is_comm(self) -> bool:
        """Whether this is the task's name."""
        return self.size == 0

    def equals(self, data: bytes) -> str:
        """C, in parentheses, that tells whether the text is `data`, no more and no less."""
        if self.is_comm:
            padded = data.ljust(_COMM_BYTES, b"\0")
            low, high = (int.from_bytes(padded[at : at + 8], "little") for at in (0, 8))
            return f"(AM_COMM_IS(0x{low:x}ULL, 0x{high:x}ULL))"
        ended = (data + b"\0")[: self.size]
        tests = (f"((u64)(AM_FIELD(u8, {self.offset + at}))) == ((u64)0x{byte:x}ULL)" for at, byte in enumerate(ended))
        return f"({' && '.join(tests)})"


@dataclass(frozen=True)
class Names:
    """What there is to name. Compared by what decides it, so that points of one shape share a translation."""

    kind: Kind
    latency: bool
    fields: tuple[Field, ...]
    usdt_arguments: tuple[UsdtArgument, ...]
    place: str = field(default="", compare=False)
    lacking: Mapping[str, str] = field(default_factory=dict, compare=False)
    _values: Mapping[str, Leaf | Text] = field(default_factory=dict, compare=False)

    def find(self, name: str) -> Leaf | Text | None:
        """Look a name up; None where there is no such value."""
        return self._values.get(name)

    def listed(self) -> list[str]:
        """Names to offer in a message; `args.` only where it is needed."""
        hidden = {f"{PREFIX_FIELD}{name}" for name in self._values if self._is_field(name)}
        return [name for name in self._values if name not in hidden]

    def _is_field(self, name: str) -> bool:
        return self._values[name] == self._values.get(f"{PREFIX_FIELD}{name}")


def names_of(point: ProbePoint) -> Names:
    """Collect what a filter may name at `point`."""
    place = f"{point.kind}:{point.function}" if not point.latency else f"latency of {point.function}"
    if point.kind in THREAD_KINDS:
        place = point.kind
    shape = (point.kind, point.latency, point.fields, point.usdt_arguments)
    return Names(*shape, place, *_values(*shape))


def argument_sources(point: ProbePoint) -> tuple[str, ...]:
    """Sources of `--args` that can be read at `point`: `arg0`.. and `retval`."""
    names = names_of(point)
    return tuple(name for name in (*ARGUMENT_NAMES, "retval") if isinstance(names.find(name), Leaf))


@lru_cache(maxsize=4096)
def _values(
    kind: Kind, latency: bool, fields: tuple[Field, ...], usdt_arguments: tuple[UsdtArgument, ...]
) -> tuple[dict[str, str], dict[str, Leaf | Text]]:
    values: dict[str, Leaf | Text] = {
        "pid": Leaf("am_pid", signed=True),
        "tid": Leaf("am_tid", signed=True),
        "cpu": Leaf("am_cpu", signed=True),
        "comm": Text("comm", _COMM_BYTES - 1),
    }
    lacking = {}
    if kind in FUNCTION_KINDS and kind not in RETURN_KINDS:
        values |= {
            name: Leaf(f"AM_ARG{number}", signed=False, at_entry=True) for number, name in enumerate(ARGUMENT_NAMES)
        }
    for number, argument in enumerate(usdt_arguments[: len(ARGUMENT_NAMES)]):
        if argument == UNREADABLE:
            lacking[f"arg{number}"] = f"the compiler left arg{number} of this probe where it cannot be read"
        else:
            values[f"arg{number}"] = Leaf(f"AM_ARG{number}", signed=argument.size < 0, at_entry=True)
    if kind == "offcpu":
        values["state"] = Leaf("AM_WAIT_STATE", signed=True)
        values["syscall"] = Leaf("AM_WAIT_SYSCALL", signed=True)
    elif kind in RETURN_KINDS or latency:
        values["retval"] = Leaf("AM_RETVAL", signed=True, at_exit=latency)
    if latency:
        values["duration"] = Leaf("AM_DURATION", signed=True, at_exit=True)
    for item in fields:
        value = _field(item)
        if value:
            values.setdefault(item.name, value)
            values[f"{PREFIX_FIELD}{item.name}"] = value
        else:
            reason = f"the text of {item.name!r} lies outside the record, where a filter cannot compare it"
            lacking |= {item.name: reason, f"{PREFIX_FIELD}{item.name}": reason}
    return lacking, values


def _field(item: Field) -> Leaf | Text | None:
    if item.type in _INTEGERS:
        return Leaf(f"AM_FIELD({item.type}, {item.offset})", signed=item.type != "u64", at_entry=True)
    if chars := _CHARS.fullmatch(item.type):
        return Text(item.name, int(chars[1]), item.offset, int(chars[1]))
    return None
