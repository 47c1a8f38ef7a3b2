"""What is going to be traced: the values that pass from the probe language to an engine."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["kprobe", "kretprobe", "tracepoint", "uprobe", "uretprobe", "usdt", "profile", "offcpu"]
Mode = Literal["auto", "count", "events"]
StackKind = Literal["kernel", "user", "python"]
"""Stacks that every event can have: of the kernel, of native code, of the Python code of this process."""

FUNCTION_KINDS: tuple[Kind, ...] = ("kprobe", "kretprobe", "uprobe", "uretprobe")
RETURN_KINDS: tuple[Kind, ...] = ("kretprobe", "uretprobe")
KERNEL_KINDS: tuple[Kind, ...] = ("kprobe", "kretprobe")
USER_KINDS: tuple[Kind, ...] = ("uprobe", "uretprobe", "usdt")
THREAD_KINDS: tuple[Kind, ...] = ("profile", "offcpu")
"""What happens to threads wherever they are: samples of a clock, and waits."""


@dataclass(frozen=True)
class ProbeSpec:
    """One pattern, as the user wrote it.

    `target` is the kernel module, tracepoint category or library ('' = any, kernel probes only), or a unit;
    `name` the glob of functions or events, or a number of that unit; `provider` is set for USDT alone. The others are
    those of a preset's probe: columns of its own, the one that is added up, and that it may be missing (`group`: unless
    another of it is there).
    """

    text: str
    kind: Kind
    target: str
    name: str
    provider: str = ""
    latency: bool = False
    exclude: bool = False
    captures: tuple[Capture, ...] = ()
    total: str = ""
    optional: bool = False
    group: str = ""


POINTED = "char *"
"""Type of a `Field` that points to text of the kernel's."""


@dataclass(frozen=True)
class Field:
    """One field of a tracepoint record, from the event's `format` file.

    `type` is a C integer name (`u8` ... `s64`), `char[N]` (N bytes inline), `string` (`__data_loc char[]`, whose
    `offset` is that of the 4-byte locator) or `POINTED` (a pointer to text of the kernel's).
    """

    name: str
    type: str
    offset: int
    size: int


@dataclass(frozen=True)
class UsdtArgument:
    """Where a USDT probe finds one argument (the `8@-4(%rbp)` notation of its ELF note).

    `form` is 'register', 'constant' or 'memory'; `size` in bytes, negative when signed.
    """

    form: Literal["register", "constant", "memory"]
    size: int
    register: str = ""
    value: int = 0
    index: str = ""
    scale: int = 1


UNREADABLE = UsdtArgument("constant", 8, "unreadable")
"""Stands for an argument in a form that is not understood; a program would read 0 there."""


@dataclass(frozen=True)
class Capture:
    """One extra column: `source` is `arg0`..`arg11`, `retval` or a USDT `argN`; `type` `u8`..`s64` or `str`.

    With an `offset` it is what lies in memory so many bytes after the address in the source; `at_return` tells that it
    is read when the call returns.
    """

    name: str
    source: str
    type: str
    offset: int | None = None
    at_return: bool = False

    @property
    def on_return(self) -> bool:
        """Whether it is known only when the call returns."""
        return self.at_return or self.source == "retval"


@dataclass(frozen=True)
class Filter:
    """A checked filter, as C over the accessors that the kernel programs define.

    `entry` is tested where the probe fires; `exit` where a latency probe's call returns (it may use AM_DURATION,
    AM_RETVAL and AM_SAVED(i)); `saved` are the entry-time C expressions kept for it. Empty text: no test.
    `uses_comm` tells that the task's name must be fetched first.
    """

    source: str = ""
    entry: str = ""
    exit: str = ""
    saved: tuple[str, ...] = ()
    uses_comm: bool = False


@dataclass(frozen=True)
class Scope:
    """Whose hits count: everybody's, or those of one process, its threads and its descendants."""

    name: Literal["self", "all", "pid"]
    pid: int = 0

    def __str__(self) -> str:
        return f"pid {self.pid}" if self.name == "pid" else self.name


@dataclass(frozen=True)
class ProbePoint:
    """One concrete place where a program is attached.

    Attributes:
        id: Index into the kernel's counters, 0-based and dense within a plan.
        probe: The spec that matched, as written by the user.
        kind: What is attached; for a latency point the kind of its entry.
        target: Kernel module ('' for the kernel itself), tracepoint category, or path of the ELF file.
        function: Function, event or `provider:name`.
        latency: Measure from entry to return (for tracepoints: `sys_enter_X` to `sys_exit_X`); always so for waits.
        offset: File offset of the instruction (user-space kinds).
        event_id: `id` of the tracepoint; `exit_event_id` that of the paired `sys_exit_X`.
        fields: The tracepoint's own fields; `record_end` the end of the last one, bytes from the record's start.
        scope: Whose hits count here.
        filter: Checked and translated for this point.
        captures: Its extra columns.
        total: The one of them that the kernel adds up over all hits; of measured calls over those that returned 0.
        usdt_arguments: Of a USDT point; `semaphore` is the file offset of its counter (0 = none).
        aliases: Other names of the same address.
        rate_hz: Samples per second of a busy CPU, of a `profile` point: each stands for 1 / `rate_hz` s.
        shortest_ns: Waits at least so long become events, of an `offcpu` point; all count and are measured.

    """

    id: int
    probe: str
    kind: Kind
    target: str
    function: str
    latency: bool = False
    offset: int = 0
    event_id: int = 0
    exit_event_id: int = 0
    fields: tuple[Field, ...] = ()
    record_end: int = 8
    usdt_arguments: tuple[UsdtArgument, ...] = ()
    semaphore: int = 0
    scope: Scope = Scope("all")
    filter: Filter = field(default_factory=Filter)
    captures: tuple[Capture, ...] = ()
    total: str = ""
    aliases: tuple[str, ...] = ()
    rate_hz: int = 0
    shortest_ns: int = 0


@dataclass(frozen=True)
class Skipped:
    """A place that matched and was left out, and why (compiler clones, blacklisted functions, resolvers)."""

    function: str
    why: str


@dataclass(frozen=True)
class Plan:
    """Everything an engine needs to attach, and a reader to make sense of what it recorded."""

    points: tuple[ProbePoint, ...]
    mode: Mode = "auto"
    filter: str = ""
    max_events: int | None = None
    duration_s: float | None = None
    buffer_mib: float = 64.0
    stacks: tuple[StackKind, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def records_events(self) -> bool:
        """Whether events are kept besides the counts."""
        return self.mode != "count"

    @property
    def latency_points(self) -> tuple[ProbePoint, ...]:
        """The points with a duration, in the order of their histograms."""
        return tuple(point for point in self.points if point.latency)

    def scope_text(self) -> str:
        """Scopes for the headline: `self`, `all`, `pid 12`, or `self + all` where probes differ."""
        return " + ".join(dict.fromkeys(str(point.scope) for point in self.points))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `Plan.from_dict` is the inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Plan:
        """Build a plan back from `to_dict`. Raises KeyError or TypeError where `data` is not one."""
        fields = {name: value for name, value in data.items() if name != "captures"}  # plans of version 1 had them here
        return cls(
            **{
                **fields,
                "points": tuple(_point_from_dict(point) for point in data["points"]),
                "skipped": tuple(Skipped(**skipped) for skipped in data["skipped"]),
                "notes": tuple(data["notes"]),
                "stacks": tuple(data.get("stacks", ())),  # plans of version 1 have none
            }
        )


def _point_from_dict(data: dict[str, Any]) -> ProbePoint:
    filter_ = {**data["filter"], "saved": tuple(data["filter"]["saved"])}
    return ProbePoint(
        **{
            **data,
            "fields": tuple(Field(**field_) for field_ in data["fields"]),
            "usdt_arguments": tuple(UsdtArgument(**argument) for argument in data["usdt_arguments"]),
            "scope": Scope(**data["scope"]),
            "filter": Filter(**filter_),
            "captures": tuple(Capture(**capture) for capture in data.get("captures", ())),
            "aliases": tuple(data["aliases"]),
        }
    )
