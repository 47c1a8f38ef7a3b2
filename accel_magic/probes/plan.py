"""What to trace: the values passed from the probe language to an engine."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Kind = Literal["kprobe", "kretprobe", "tracepoint", "uprobe", "uretprobe", "usdt", "profile", "offcpu", "itt"]
Mode = Literal["auto", "count", "events"]
Way = Literal["", "patched", "breakpoint"]
"""How a user-space function is probed: its first instructions are replaced in this process, or by the kernel."""
Uprobes = Literal["auto", "patched", "kernel"]
"""How they should be probed: patched where possible, only patched, or only by the kernel."""
Nesting = Literal["", "covering", "covered", "naming"]
"""Which ITT tasks are measured and recorded; all are counted. `covered`: all but those directly within a `covering`
task, of which all are. `naming`, for tasks that say what the task within them is: the first around each."""
StackKind = Literal["kernel", "user", "python"]
"""Stacks that can be recorded with each event: kernel, native user code, Python code of this process."""

FUNCTION_KINDS: tuple[Kind, ...] = ("kprobe", "kretprobe", "uprobe", "uretprobe")
RETURN_KINDS: tuple[Kind, ...] = ("kretprobe", "uretprobe")
KERNEL_KINDS: tuple[Kind, ...] = ("kprobe", "kretprobe")
USER_KINDS: tuple[Kind, ...] = ("uprobe", "uretprobe", "usdt")
THREAD_KINDS: tuple[Kind, ...] = ("profile", "offcpu")
"""Kinds that follow threads rather than code locations: clock samples and waits."""


@dataclass(frozen=True)
class ProbeSpec:
    """One pattern, as the user wrote it.

    `target` is the kernel module, tracepoint category, library ('' = any, kernel probes only) or ITT domain, or a unit;
    `name` is the glob for functions, events or tasks, or a number in that unit; `provider` is set for USDT only. The
    other fields come from a preset's probe: its own columns, the column to add up, whether it is only counted, whether
    its tasks have page faults, which of them are measured, and whether the probe may be missing (`group`: a missing
    probe is reported only if its whole group is missing; `kernels`: those that have it, in words).
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
    counted: bool = False
    page_faults: bool = False
    nesting: Nesting = ""
    optional: bool = False
    group: str = ""
    kernels: str = ""


POINTED = "char *"
"""Type of a `Field` that points to kernel text."""


@dataclass(frozen=True)
class TracepointField:
    """One field of a tracepoint record, from the event's `format` file.

    `type` is a C integer name (`u8` ... `s64`), `char[N]` (N bytes inline), `string` (`__data_loc char[]`, whose
    `offset` is that of the 4-byte locator) or `POINTED` (a pointer to kernel text).
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
"""Marks an argument in an unsupported form; a program reads 0 there."""


@dataclass(frozen=True)
class Capture:
    """One extra column: `source` is `arg0`..`arg11`, `retval` or a USDT `argN`; `type` `u8`..`s64` or `str`.

    With an `offset`, the value is read from memory that many bytes after the address in the source. `at_return`: read
    it when the call returns.
    """

    name: str
    source: str
    type: str
    offset: int | None = None
    at_return: bool = False

    @property
    def on_return(self) -> bool:
        """Whether the value is known only when the call returns."""
        return self.at_return or self.source == "retval"


@dataclass(frozen=True)
class Filter:
    """A checked filter, as C over the accessors that the kernel programs define.

    `entry` is tested where the probe fires; `exit` where a latency probe's call returns (it may use AM_DURATION,
    AM_RETVAL and AM_SAVED(i)); `saved` are the entry-time C expressions kept for it. Empty text: no test.
    `uses_comm`: the task's name must be fetched first.
    """

    source: str = ""
    entry: str = ""
    exit: str = ""
    saved: tuple[str, ...] = ()
    uses_comm: bool = False


@dataclass(frozen=True)
class Scope:
    """Whose hits count: all processes, or one process with its threads and descendants.

    `kernel`: whether hits of kernel threads and interrupts count as well, which a driver has for all users: `counts`
    only, or also `events`; `owned`: both, for objects that the process and its descendants have created. `object_field`
    then identifies these objects.
    """

    name: Literal["self", "all", "pid"]
    pid: int = 0
    kernel: Literal["", "counts", "events", "owned"] = ""
    object_field: str = ""

    def __str__(self) -> str:
        whose = f"pid {self.pid}" if self.name == "pid" else self.name
        return f"{whose} + kernel threads and interrupts" if self.kernel else whose


@dataclass(frozen=True)
class ProbePoint:
    """One concrete place where a program is attached.

    Attributes:
        id: Index into the kernel's counters, 0-based and dense within a plan.
        probe: The spec that matched, as written by the user.
        kind: What is attached; for a latency point, the kind of its entry.
        target: Kernel module ('' for the kernel itself), tracepoint category, path of the ELF file, or ITT domain.
        function: Function, event, `provider:name`, or ITT task.
        latency: Measure from entry to return (for tracepoints: `sys_enter_X` to `sys_exit_X`); always set for waits.
        offset: File offset of the instruction (user-space kinds).
        event_id: `id` of the tracepoint; `exit_event_id` is that of the paired `sys_exit_X`.
        fields: The tracepoint's own fields; `record_end` is the end of the last one, in bytes from the record's start.
        scope: Whose hits count here.
        filter: Checked and translated for this point.
        captures: Its extra columns.
        total: The capture that the kernel adds up over all hits; for measured calls, over those that returned 0.
        counted: Only count its hits, also by thread, and measure its calls: no events, even if the trace records them.
        page_faults: `itt` points only: each event has the page faults of its process meanwhile.
        nesting: `itt` points only: which tasks are measured and recorded; all are counted. `partly_measured` says
            whether some may not be.
        way: User-space functions only: how it is probed.
        usdt_arguments: USDT points only; `semaphore` is the file offset of the probe's counter (0 = none).
        aliases: Other names of the same address.
        rate_hz: `profile` points only: samples per second of a busy CPU; each represents 1 / `rate_hz` s.
        shortest_ns: `offcpu` points only: waits at least this long become events; all waits are counted and measured.

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
    fields: tuple[TracepointField, ...] = ()
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
    counted: bool = False
    page_faults: bool = False
    nesting: Nesting = ""
    way: Way = ""

    @property
    def partly_measured(self) -> bool:
        """Whether some of its hits are only counted, although it is measured."""
        return self.nesting in {"covered", "naming"}


@dataclass(frozen=True)
class Skipped:
    """A place that matched but was skipped, and why (compiler clones, blacklisted functions, resolvers)."""

    function: str
    why: str


@dataclass(frozen=True)
class TaskPattern:
    """ITT tasks, as globs of their domain and name."""

    domain: str
    task: str


Stacks: TypeAlias = bool | str | tuple[str, ...]
"""Stacks to record: True or `auto` for all that are available; or kinds, as names or joined by commas."""


@dataclass(frozen=True)
class TraceRequest:
    """What is asked for, as on the `%%ktrace` line; `accel_magic.probes.matching.make_plan` checks it.

    Attributes:
        specs: Probes as text or parsed; a place belongs to the first that matches it, or to one that measures its
            latency.
        mode: `auto`, `count` or `events`.
        scope: `self`, `all` or a process id. '': uprobes, USDT, system calls, samples and waits count for `self`,
            kernel functions and other tracepoints for all.
        filter: Expression that must be valid at every point.
        args: Extra columns, as in `--args`.
        max_events: Stop recording after this many events.
        duration_s: Stop tracing after this many seconds.
        buffer_mib: Size of the ring buffers.
        stacks: Stacks of each event.
        uprobes: How functions of this process are probed.
        children: Also patch functions of the programs that this process starts.

    """

    specs: tuple[str | ProbeSpec, ...]
    mode: Mode = "auto"
    scope: str = ""
    filter: str = ""
    args: str = ""
    max_events: int | None = None
    duration_s: float | None = None
    buffer_mib: float = 64.0
    stacks: Stacks = False
    uprobes: Uprobes = "auto"
    children: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """The probes as text."""
        return tuple(spec if isinstance(spec, str) else spec.text for spec in self.specs)


@dataclass(frozen=True)
class Plan:
    """What a request means on this machine: everything needed to attach, and to interpret the recording.

    The points come in the order kernel, patched functions, ITT tasks. While a trace runs, a point of kind `itt` is a
    probe, that is a pair of globs; `exclusions` are tasks to leave out. In a recording, it is a task that was seen, or
    a probe that selected none. `stacks`: the requested ones that this machine supports. `through`: what attaches the
    probes, if it is not this process.
    """

    points: tuple[ProbePoint, ...]
    request: TraceRequest = TraceRequest(())
    stacks: tuple[StackKind, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    exclusions: tuple[TaskPattern, ...] = ()
    through: str = ""

    @property
    def records_events(self) -> bool:
        """Whether events are recorded in addition to counts."""
        return self.request.mode != "count"

    def records(self, point: ProbePoint) -> bool:
        """Whether events of a point are recorded."""
        return self.records_events and not point.counted

    @property
    def latency_points(self) -> tuple[ProbePoint, ...]:
        """The points with a duration, in histogram order."""
        return tuple(point for point in self.points if point.latency)

    @property
    def task_points(self) -> tuple[ProbePoint, ...]:
        """The points of kind `itt`, which come last."""
        return tuple(point for point in self.points if point.kind == "itt")

    @property
    def kernel_points(self) -> tuple[ProbePoint, ...]:
        """The points that BPF programs are attached to."""
        return tuple(point for point in self.points if point.kind != "itt" and point.way != "patched")

    @property
    def patched_points(self) -> tuple[ProbePoint, ...]:
        """The points whose functions are patched in this process."""
        return tuple(point for point in self.points if point.way == "patched")

    def with_points(self, points: Iterable[ProbePoint], skipped: Iterable[Skipped] = ()) -> Plan:
        """A plan of the same request with other points, and more of what was skipped."""
        return replace(self, points=tuple(points), skipped=(*self.skipped, *skipped))

    def scope_text(self) -> str:
        """Scopes for the headline: `self`, `all`, `pid 12`, or `self + all` if probes differ."""
        return " + ".join(dict.fromkeys(part for point in self.points for part in str(point.scope).split(" + ")))

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON types; `Plan.from_dict` is the inverse, except that parsed probes become texts."""
        values = asdict(self)
        request = values.pop("request")
        request["chosen_scope"], request["requested_stacks"] = request.pop("scope"), request.pop("stacks")
        request["specs"] = self.request.texts
        return {**request, **values}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Plan:
        """Rebuild a plan from `to_dict`. Raises KeyError or TypeError if `data` is not a plan."""
        remaining = {name: value for name, value in data.items() if name != "captures"}  # version 1 kept them here
        stacks = remaining.pop("requested_stacks", False)
        request = TraceRequest(
            specs=tuple(remaining.pop("specs", ())),  # absent in versions 1 to 3, like `args` and `chosen_scope`
            scope=remaining.pop("chosen_scope", ""),
            args=remaining.pop("args", ""),
            uprobes=remaining.pop("uprobes", "kernel"),  # absent in versions 1 to 4, like `children`
            children=remaining.pop("children", False),
            stacks=tuple(stacks) if isinstance(stacks, list) else stacks,
            **{name: remaining.pop(name) for name in ("mode", "filter", "max_events", "duration_s", "buffer_mib")},
        )
        return cls(
            **{
                **remaining,
                "points": tuple(_point_from_dict(point) for point in data["points"]),
                "request": request,
                "skipped": tuple(Skipped(**skipped) for skipped in data["skipped"]),
                "notes": tuple(data["notes"]),
                "stacks": tuple(data.get("stacks", ())),  # absent in version 1
                "exclusions": tuple(TaskPattern(**pattern) for pattern in data.get("exclusions", ())),
            }
        )


def _point_from_dict(data: dict[str, Any]) -> ProbePoint:
    filter_ = {**data["filter"], "saved": tuple(data["filter"]["saved"])}
    return ProbePoint(
        **{
            **data,
            "fields": tuple(TracepointField(**field_) for field_ in data["fields"]),
            "usdt_arguments": tuple(UsdtArgument(**argument) for argument in data["usdt_arguments"]),
            "scope": Scope(**data["scope"]),
            "filter": Filter(**filter_),
            "captures": tuple(Capture(**capture) for capture in data.get("captures", ())),
            "aliases": tuple(data["aliases"]),
        }
    )
