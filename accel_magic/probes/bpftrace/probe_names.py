"""bpftrace's probes, and their names on a `%%ktrace` line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from accel_magic.probes import presets

if TYPE_CHECKING:
    from collections.abc import Callable

Role: TypeAlias = Literal["entry", "return", "event", "script", "timer", "none"]
"""When a probe fires: function entry or return, other event, script start or end, timer, or unknown."""

_SHORT: Final = {
    "k": "kprobe",
    "kr": "kretprobe",
    "f": "fentry",
    "fr": "fexit",
    "kfunc": "fentry",
    "kretfunc": "fexit",
    "t": "tracepoint",
    "rt": "rawtracepoint",
    "rawtp": "rawtracepoint",
    "u": "uprobe",
    "ur": "uretprobe",
    "U": "usdt",
    "p": "profile",
    "i": "interval",
    "s": "software",
    "h": "hardware",
    "w": "watchpoint",
    "aw": "asyncwatchpoint",
    "it": "iter",
}
_SCRIPT: Final = ("BEGIN", "END", "begin", "end", "self", "test", "bench")
_SECONDS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "hz": 0.0}
_HIGHEST_RATE: Final = 9999
_CLOSEST: Final = {
    **dict.fromkeys(("page-faults", "faults", "minor-faults", "major-faults"), "tracepoint:exceptions:page_fault_user"),
    **dict.fromkeys(("context-switches", "cs"), "tracepoint:sched:sched_switch"),
    "cpu-migrations": "tracepoint:sched:sched_migrate_task",
    **dict.fromkeys(("cpu-clock", "cpu", "task-clock", "cpu-cycles", "cycles"), "profile:hz:99"),
}
"""Closest probes for software and hardware counters."""


@dataclass(frozen=True)
class ScriptProbe:
    """One probe of a script.

    Attributes:
        text: As written.
        role: When it fires.
        word: The `%%ktrace` probe; '' if there is none.
        entry: For entries and returns: the entry's probe, which matches the two.
        own: Whether only this process's hits count by default; bpftrace counts all processes.
        note: Why there is no equivalent, or what differs.
        seconds: Interval of a timer.

    """

    text: str
    role: Role
    word: str = ""
    entry: str = ""
    own: bool = False
    note: str = ""
    seconds: float = 0.0

    @property
    def syscall(self) -> str:
        """Name of the system call that the tracepoint belongs to, `*` for all; '' for other probes."""
        found = re.fullmatch(r"tracepoint:(?:raw_)?syscalls:sys_(?:enter|exit)(?:_(.+))?", self.word)
        return (found[1] or "*") if found else ""


def is_kind(word: str) -> bool:
    """Whether a word is a bpftrace probe."""
    head, _, rest = word.partition(":")
    return word in _SCRIPT or bool(rest and (head in _SHORT or head in _PLACES))


def only_bpftrace(word: str) -> bool:
    """Whether a word is a bpftrace probe that `%%ktrace` does not have."""
    head, _, rest = word.partition(":")
    kind = _SHORT.get(head, head)
    return word in _SCRIPT or bool(rest and kind in _PLACES and kind not in _SHARED)


def place_of(text: str) -> ScriptProbe:
    """Find the equivalent of a probe."""
    if text in _SCRIPT or text.partition(":")[0] == "self":
        return ScriptProbe(text, "script")
    head, colon, rest = text.partition(":")
    kind = _SHORT.get(head, head)
    if colon and kind in _PLACES:
        return _PLACES[kind](text, kind, rest)
    if colon and ":" not in rest:  # MODULE:FUNCTION, a %%ktrace probe
        return _kernel(text, "kprobe", text)
    return _none(text, "it is not a known bpftrace probe")


def _kernel(text: str, kind: str, rest: str) -> ScriptProbe:
    if "+" in rest:
        return _none(text, "only a function's entry and return can be probed, not offsets")
    returns = kind in ("kretprobe", "fexit")
    target = rest.removeprefix("vmlinux:")
    word = f"{'kretprobe' if returns else 'kprobe'}:{target}"
    return ScriptProbe(text, "return" if returns else "entry", word, f"kprobe:{target}")


def _tracepoint(text: str, kind: str, rest: str) -> ScriptProbe:  # noqa: ARG001 - as the others
    category, _, event = rest.partition(":")
    word = f"tracepoint:{category}:{event}"
    found = re.fullmatch(r"sys_(?P<way>enter|exit)(?:_(?P<call>.+))?", event)
    if found is None or category != ("syscalls" if found["call"] else "raw_syscalls"):
        return ScriptProbe(text, "event", word, own=category in ("syscalls", "raw_syscalls"))
    role: Role = "entry" if found["way"] == "enter" else "return"
    return ScriptProbe(text, role, word, f"tracepoint:syscalls:sys_enter_{found['call'] or '*'}", own=True)


def _raw_tracepoint(text: str, kind: str, rest: str) -> ScriptProbe:  # noqa: ARG001 - as the others
    note = "the event's fields take the place of the raw arguments"
    return ScriptProbe(text, "event", f"tracepoint:*:{rest.rpartition(':')[2]}", note=note)


def _user(text: str, kind: str, rest: str) -> ScriptProbe:
    library, _, function = rest.partition(":")
    if ":" in function or '"' in rest:
        return _none(text, "use the mangled names of C++ functions: uprobe:LIBRARY:*NAME*")
    if "+" in function or re.fullmatch(r"0x[0-9a-fA-F]+|\d+", function):
        return _none(text, "only a function's entry and return can be probed, not addresses or offsets")
    note = ""
    if (functions := presets.hidden(library, function)) is not None:
        library, note = functions.instead, functions.why
    returns = kind == "uretprobe"
    return ScriptProbe(
        text,
        "return" if returns else "entry",
        f"{kind}:{library}:{function}",
        f"uprobe:{library}:{function}",
        True,
        note,
    )


def _usdt(text: str, kind: str, rest: str) -> ScriptProbe:  # noqa: ARG001 - as the others
    parts = rest.split(":")
    if len(parts) == 2:
        parts.insert(1, "*")
    if len(parts) != 3:
        return _none(text, "it does not have the form usdt:LIBRARY:PROVIDER:NAME")
    return ScriptProbe(text, "event", f"usdt:{':'.join(parts)}", own=True)


def _profile(text: str, kind: str, rest: str) -> ScriptProbe:  # noqa: ARG001 - as the others
    unit, _, number = rest.rpartition(":")
    each = _seconds(unit or "hz", number)
    if not each or round(1 / each) > _HIGHEST_RATE:
        return _none(text, f"the maximum sampling rate is {_HIGHEST_RATE} Hz, e.g. profile:hz:99")
    return ScriptProbe(text, "event", f"profile:hz:{max(round(1 / each), 1)}", own=True)


def _interval(text: str, kind: str, rest: str) -> ScriptProbe:  # noqa: ARG001 - as the others
    unit, _, number = rest.rpartition(":")
    return ScriptProbe(text, "timer", seconds=_seconds(unit or "s", number))


def _seconds(unit: str, number: str) -> float:
    """Interval between ticks; 0 if it cannot be parsed."""
    if not (number.isascii() and number.isdecimal() and 0 < int(number) < 10**12 and unit in _SECONDS):
        return 0.0
    return 1 / int(number) if unit == "hz" else int(number) * _SECONDS[unit]


def _counter(text: str, kind: str, rest: str) -> ScriptProbe:  # noqa: ARG001 - as the others
    name = rest.partition(":")[0]
    word = _CLOSEST.get(name, "")
    if not word:
        return _none(text, "hardware counters are not supported; profile:hz:99 samples running code")
    note = f"{word} is the closest probe; it fires at every event"
    return ScriptProbe(text, "event", word, own=word.startswith("profile"), note=note)


def _without(text: str, kind: str, rest: str) -> ScriptProbe:  # noqa: ARG001 - as the others
    return _none(text, f"{kind} probes are not supported")


def _none(text: str, why: str) -> ScriptProbe:
    return ScriptProbe(text, "none", note=why)


_PLACES: Final[dict[str, Callable[[str, str, str], ScriptProbe]]] = {
    **dict.fromkeys(("kprobe", "kretprobe", "fentry", "fexit"), _kernel),
    "tracepoint": _tracepoint,
    "rawtracepoint": _raw_tracepoint,
    **dict.fromkeys(("uprobe", "uretprobe"), _user),
    "usdt": _usdt,
    "profile": _profile,
    "interval": _interval,
    **dict.fromkeys(("software", "hardware"), _counter),
    **dict.fromkeys(("watchpoint", "asyncwatchpoint", "iter"), _without),
}
_SHARED: Final = ("kprobe", "kretprobe", "tracepoint", "uprobe", "uretprobe", "usdt", "profile")
"""Kinds with the same syntax in bpftrace and `%%ktrace`."""
