"""What crosses the broker's socket: requests and answers, which take turns. Everything received is checked.

A connection belongs to one process.

| request | answer |
|---|---|
| `Hello` | `Welcome`: what is allowed, for the doctor |
| `PlanRequest` | `Planned`: a number, and the plan |
| `AttachRequest` | `AttachedTrace`: its number, plan, layouts, maps and rings |
| `StatisticsRequest` | `Statistics`: hits for which no program ran, CPU time |
| `DetachRequest` | `Detached`: notes |
| `StatusRequest` | `Status`: the traces that ran when this connection began, as far as the user may see them |

The answer is a `codec.Failure` if something is wrong. `Hello` and `Failure` are understood by all versions.
"""

# Classes of fields are needed when the program runs.
# ruff: noqa: TC001

from __future__ import annotations

import math
from dataclasses import dataclass, is_dataclass
from typing import Annotated, Final

from msgspec import Meta, field

from accel_magic.broker.broker_policy import BrokerPolicy
from accel_magic.broker.trace_registry import ListedTrace
from accel_magic.codec import Descriptor, Message, MessageError
from accel_magic.errors import MachineError
from accel_magic.kernel.attachment import RecordLayout
from accel_magic.probes.plan import Plan, Skipped, StackKind, TraceRequest, UsdtArgument

VERSION: Final = 3
LARGEST_REQUEST: Final = 4 << 20
LARGEST_ANSWER: Final = 64 << 20
MOST_FILES: Final = 64
_MOST_PROBES: Final = 256
_MOST_ITEMS: Final = 10_000
_LONGEST_TEXT: Final = 4096
_MOST_HOPS: Final = 4
_MOST_TRACERS: Final = 4
_STACKS: Final = ((), ("user",), ("python",), ("user", "python"))
_SIZES: Final = (-8, -4, -2, -1, 1, 2, 4, 8)
REGISTERS: Final = frozenset(
    ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"]
)


@dataclass(frozen=True)
class FilePoint:
    """A place in a user-space file.

    Attributes:
        target: The file's path, for display.
        function: Function, or `provider:name` of a USDT probe.
        offset: File offset of the instruction.
        file: Number of the file among those of the request.
        semaphore: USDT only: file offset of the probe's counter; 0: none.
        aliases: Other names of the same address.
        usdt_arguments: USDT only.

    """

    target: str
    function: str
    offset: Annotated[int, Meta(ge=0, lt=1 << 62)]
    file: int
    semaphore: Annotated[int, Meta(ge=0, lt=1 << 32)] = 0
    aliases: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()
    usdt_arguments: Annotated[tuple[UsdtArgument, ...], Meta(max_length=12)] = ()


@dataclass(frozen=True)
class FilePlaces:
    """The places in user-space files that one probe matches, found by the user's own process.

    Attributes:
        points: The places.
        skipped: Places that cannot be traced.
        notes: Notes for the user.
        error: The probe matches nothing: what, why, fix, code; None otherwise.

    """

    points: tuple[FilePoint, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    error: tuple[str, str, str, str] | None = None


class Request(Message, frozen=True):
    """Base of what a client asks for."""


class Hello(Request, frozen=True, tag="hello", forbid_unknown_fields=False):
    """Comes first: the version of the client's messages."""

    version: int


class Welcome(Message, frozen=True):
    """The version is the same; what the user may trace."""

    policy: BrokerPolicy


class ProbesRequest(Request, frozen=True):
    """Base of the requests with probes.

    Attributes:
        request: What to trace.
        places: Of probes in user-space files, by the number of the probe among the parsed ones.
        files: The files that the places are in, open for reading.

    """

    request: TraceRequest
    places: dict[int, FilePlaces] = field(default_factory=dict)
    files: tuple[Descriptor, ...] = ()


class PlanRequest(ProbesRequest, frozen=True, tag="plan"):
    """Match probes."""


class Planned(Message, frozen=True):
    """A plan, and its number in this connection."""

    number: int
    plan: Plan


class PythonFrames(Message, frozen=True):
    """Where the caller's Python keeps its frames: `fields` and `hops` of its `python_layout.PythonLayout`."""

    fields: dict[str, int]
    hops: Annotated[tuple[int, ...], Meta(min_length=1, max_length=_MOST_HOPS)]


class AttachRequest(ProbesRequest, frozen=True, tag="attach"):
    """Match probes and attach them.

    Attributes:
        planned: Number of a plan for the same request, whose places and files need not be sent again.
        stacks: Stacks of each event.
        python: For Python stacks.
        tracers: Helper processes whose hits never count.

    """

    planned: int | None = None
    stacks: tuple[StackKind, ...] = ()
    python: PythonFrames | None = None
    tracers: Annotated[tuple[Annotated[int, Meta(ge=1, le=1 << 22)], ...], Meta(max_length=_MOST_TRACERS)] = ()


class AttachedTrace(Message, frozen=True):
    """A trace, its number, and descriptors of its maps as in a `kernel.attachment.Attachment`."""

    trace: int
    plan: Plan
    skipped: tuple[Skipped, ...]
    layout: RecordLayout
    control: Descriptor
    counters: Descriptor
    own_threads: Descriptor
    histograms: Descriptor | None
    stacks: Descriptor | None
    waits: Descriptor | None
    thread_counts: Descriptor | None
    rings: tuple[Descriptor, ...]
    ring_sizes: tuple[int, ...]


class TraceToAnswer(Request, frozen=True):
    """Base of the requests about a running trace: its number."""

    trace: int


class StatisticsRequest(TraceToAnswer, frozen=True, tag="statistics"):
    """Measure a running trace."""


class Statistics(Message, frozen=True):
    """Hits for which no program ran, and the run time of all programs in ns."""

    misses: int
    run_ns: int


class DetachRequest(TraceToAnswer, frozen=True, tag="detach"):
    """End a trace."""


class Detached(Message, frozen=True):
    """Notes for the user, and those on links that are left."""

    notes: tuple[str, ...]
    left: tuple[str, ...]


class StatusRequest(Request, frozen=True, tag="status"):
    """List running traces."""


@dataclass(frozen=True)
class RunningTrace:
    """A running trace of a process."""

    uid: int
    pid: int
    trace: ListedTrace


class Status(Message, frozen=True):
    """The running traces."""

    traces: tuple[RunningTrace, ...]


REQUESTS: Final[tuple[type[Request], ...]] = (
    Hello,
    PlanRequest,
    AttachRequest,
    StatisticsRequest,
    DetachRequest,
    StatusRequest,
)


def rejected(why: str) -> MachineError:
    """Error for a request that is not one."""
    return MachineError("the broker rejected the request", why=why, code="broker.bad-request")


def check(request: Request) -> None:
    """Check what the types of a request's fields leave open. Raises MessageError."""
    _check_sizes(request)
    if isinstance(request, ProbesRequest):
        _check_probes(request)


def _check_sizes(value: object) -> None:
    """Require that texts are short and without NUL, sequences short, and numbers finite."""
    if isinstance(value, str) and (len(value) > _LONGEST_TEXT or "\0" in value):
        raise MessageError("a text is too long, or has a NUL")
    if isinstance(value, float) and not math.isfinite(value):
        raise MessageError("not a number")
    parts: list[object] = []
    if isinstance(value, tuple):
        parts = [*value]
    elif isinstance(value, dict):
        parts = [*value, *value.values()]
    elif isinstance(value, Message):
        parts = [getattr(value, name) for name in value.__struct_fields__]
    elif is_dataclass(value):
        parts = [*vars(value).values()]
    if len(parts) > _MOST_ITEMS:
        raise MessageError("too many values")
    for part in parts:
        _check_sizes(part)


def _check_probes(message: ProbesRequest) -> None:
    request = message.request
    if len(request.specs) > _MOST_PROBES or request.specs != request.texts:
        raise MessageError("too many probes, or not texts")
    if isinstance(message, AttachRequest) and message.stacks not in _STACKS:
        raise MessageError("not the stacks of a user")
    for point in (point for places in message.places.values() for point in places.points):
        if not 0 <= point.file < len(message.files):
            raise MessageError("no such file")
        for argument in point.usdt_arguments:
            _check_argument(argument)


def _check_argument(argument: UsdtArgument) -> None:
    known = REGISTERS if argument.form != "constant" else {"", "unreadable"}
    if argument.register not in known or argument.index not in {"", *REGISTERS}:
        raise MessageError("not a register")
    if argument.size not in _SIZES or not 1 <= argument.scale <= 8 or argument.value >= 1 << 63:
        raise MessageError("not an argument of a USDT probe")
