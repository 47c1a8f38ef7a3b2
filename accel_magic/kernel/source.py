"""From a plan to the C text of its programs, and to the layout of what they record."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Literal

from accel_magic.kernel import python_layout
from accel_magic.kernel.maps import possible_cpus, power_of_two
from accel_magic.kernel.syscall_numbers import number_of
from accel_magic.probes.captures import ARGUMENT_NAMES, DEFAULT_COLUMNS
from accel_magic.probes.plan import (
    FUNCTION_KINDS,
    KERNEL_KINDS,
    POINTED,
    RETURN_KINDS,
    USER_KINDS,
    Capture,
    Field,
    Plan,
    ProbePoint,
    StackKind,
    UsdtArgument,
)
from accel_magic.traces.attachment import HEAD, STRING_SIZE, Item, Layout, PointLayout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Role = Literal["plain", "entry", "exit"]

_TEMPLATES: dict[Role, str] = {
    "plain": "probe.bpf.c",
    "entry": "latency_entry.bpf.c",
    "exit": "latency_exit.bpf.c",
}
_ARGUMENT_REGISTERS = ("di", "si", "dx", "cx", "r8", "r9")
_SYSCALL_RETVAL_OFFSET = 16
_STACKS = {"kernel": "AM_KERNEL_STACK", "user": "AM_USER_STACK", "python": "AM_PYTHON_STACK"}
_CLASS_STEP = 16
"""Records are rounded up to few sizes: each size has a ring of its own, where all records are alike."""


@dataclass(frozen=True)
class Program:
    """One program of the text and the probe points it serves.

    `table` is its row in the table of system calls, where it runs on the raw tracepoints of all calls; else None.
    `parts` tells for each point which part of the program is its own; a cookie carries it in its upper half.
    """

    name: str
    role: Role
    points: tuple[int, ...]
    parts: tuple[int, ...]
    table: int | None = None


@dataclass(frozen=True)
class Source:
    """C text for the compiler, its programs, and the layout of maps and records."""

    text: str
    programs: tuple[Program, ...]
    layout: Layout


@dataclass(frozen=True)
class _Payload:
    """How a point's record is filled: statements, what they hold, bytes; what its entry must save, what is added up."""

    statements: str = ""
    items: tuple[Item, ...] = ()
    size: int = 0
    saved: tuple[str, ...] = ()
    total: str = ""


class _Writer:
    """Lays values out in a payload, 8-aligned, one after the other."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.items: list[Item] = []
        self.size = 0

    def put(self, name: str, type_: str, value: str) -> None:
        self.statements.append(f"AM_PUT({self.size}, {value})")
        self.items.append(Item(name, type_, self.size))
        self.size += 8

    def put_string(self, name: str, address: str, *, kernel: bool) -> None:
        macro = "AM_PUT_KERNEL_STRING" if kernel else "AM_PUT_USER_STRING"
        self.statements.append(f"{macro}({self.size}, {address})")
        self.items.append(Item(name, "string", self.size))
        self.size += STRING_SIZE

    def capture(self, capture: Capture, value: str, *, kernel: bool) -> None:
        if capture.type == "str":
            self.put_string(capture.name, value, kernel=kernel)
        else:
            self.put(capture.name, capture.type, value)

    def payload(self, saved: Iterable[str] = ()) -> _Payload:
        return _Payload(" ".join(self.statements), tuple(self.items), self.size, tuple(saved))


def _argument(index: int, *, kernel: bool) -> str:
    """An argument of a function, at its entry: what has no register lies on the stack above the return address."""
    on_stack = index - len(_ARGUMENT_REGISTERS)
    if on_stack < 0:
        return f"((u64)AM_REGISTERS->{_ARGUMENT_REGISTERS[index]})"
    macro = "AM_READ_KERNEL" if kernel else "AM_READ_USER"
    return f"((u64){macro}(u64, AM_STACK_POINTER + {8 * (on_stack + 1)}))"


def _in_memory(capture: Capture, address: str, *, kernel: bool) -> str:
    """Value of a capture whose source holds `address`; what a `str` points to is read later, from that pointer."""
    if capture.offset is None:
        return address
    type_ = "u64" if capture.type == "str" else capture.type
    macro = "AM_READ_KERNEL" if kernel else "AM_READ_USER"
    return f"((u64){macro}({type_}, {address} + {capture.offset}))"


def _usdt_value(argument: UsdtArgument) -> str:
    width = abs(argument.size)
    type_ = f"{'s' if argument.size < 0 else 'u'}{width * 8}"
    if argument.form == "constant":
        return f"((u64)({type_})({argument.value}LL))"
    if argument.form == "register":
        return f"((u64)({type_})AM_REGISTERS->{argument.register})"
    address = f"AM_REGISTERS->{argument.register} + ({argument.value}LL)"
    if argument.index:
        address += f" + AM_REGISTERS->{argument.index} * {argument.scale}"
    return f"((u64)AM_READ_USER({type_}, {address}))"


def _accessors(point: ProbePoint) -> dict[str, str]:
    """AM_ARGn and AM_RETVAL as this point's programs define them."""
    if point.kind == "usdt":
        return {f"AM_ARG{index}": _usdt_value(argument) for index, argument in enumerate(point.usdt_arguments)}
    names: dict[str, str] = {}
    if point.kind in FUNCTION_KINDS:
        kernel = point.kind in KERNEL_KINDS
        names.update({f"AM_{name.upper()}": _argument(at, kernel=kernel) for at, name in enumerate(ARGUMENT_NAMES)})
        names["AM_RETVAL"] = "((s64)AM_REGISTERS->ax)"
    elif point.latency:
        names["AM_RETVAL"] = f"AM_FIELD(s64, {_SYSCALL_RETVAL_OFFSET})"
    return names


def _column(field: Field) -> str:
    """Name of a tracepoint field's column: `pid_field` where events have a `pid` of their own."""
    return f"{field.name}_field" if field.name in DEFAULT_COLUMNS else field.name


def _tracepoint_payload(point: ProbePoint) -> _Payload:
    end = max((field.offset + (4 if field.type == "string" else field.size) for field in point.fields), default=8)
    statements = [f"AM_COPY_FIELDS({end})"] if end > 8 else []
    size = -(-(end - 8) // 8) * 8
    items: list[Item] = []
    for field in point.fields:
        if field.type in ("string", POINTED):
            located = field.type == "string"
            copy = f"AM_COPY_STRING({size}, {field.offset})"
            follow = f"AM_PUT_KERNEL_STRING({size}, AM_FIELD(u64, {field.offset}))"
            statements.append(copy if located else follow)
            items.append(Item(_column(field), "string", size))
            size += STRING_SIZE
        else:
            items.append(Item(_column(field), field.type, field.offset - 8))
    return _Payload(" ".join(statements), tuple(items), size)


def _latency_payload(point: ProbePoint) -> _Payload:
    saved = list(point.filter.saved)

    def slot(expression: str) -> str:
        if expression not in saved:
            saved.append(expression)
        return f"AM_SAVED({saved.index(expression)})"

    writer = _Writer()
    writer.put("duration_ns", "s64", "AM_DURATION")
    writer.put("retval", "s64", "AM_RETVAL")
    if point.kind == "tracepoint":
        for field in point.fields:
            if field.name != "__syscall_nr" and field.type[0] in "us":
                writer.put(_column(field), field.type, slot(f"AM_FIELD({field.type}, {field.offset})"))
        return writer.payload(saved)
    kernel = point.kind in KERNEL_KINDS
    total = ""
    for capture in point.captures:
        if capture.source == "retval":
            value = _in_memory(capture, "AM_RETVAL", kernel=kernel)
        elif capture.at_return:
            value = _in_memory(capture, slot(_argument(int(capture.source[3:]), kernel=kernel)), kernel=kernel)
        else:
            value = slot(_in_memory(capture, _argument(int(capture.source[3:]), kernel=kernel), kernel=kernel))
        writer.capture(capture, value, kernel=kernel)
        total = value if capture.name == point.total else total
    return replace(writer.payload(saved), total=total)


def _plain_payload(point: ProbePoint) -> _Payload:
    if point.kind == "tracepoint":
        return _tracepoint_payload(point)
    writer = _Writer()
    on_return = point.kind in RETURN_KINDS
    if on_return:
        writer.put("retval", "s64", "AM_RETVAL")
    renamed = {capture.source for capture in point.captures if capture.offset is None}
    kernel, total = point.kind in KERNEL_KINDS, ""
    for index, argument in enumerate(point.usdt_arguments):
        if f"arg{index}" not in renamed:
            sign = "s" if argument.size < 0 else "u"
            writer.put(f"arg{index}", f"{sign}{abs(argument.size) * 8}", f"AM_ARG{index}")
    for capture in point.captures:
        address = "AM_RETVAL" if on_return else f"AM_ARG{capture.source[3:]}"
        value = _in_memory(capture, address, kernel=kernel)
        writer.capture(capture, value, kernel=kernel)
        total = value if capture.name == point.total else total
    return replace(writer.payload(), total=total)


def _with_stacks(payload: _Payload, stacks: Iterable[StackKind]) -> _Payload:
    """Add the keys of the hit's stacks, after all else; a measured call's are those at its return."""
    statements, items, size = [payload.statements], list(payload.items), -(-payload.size // 8) * 8
    for stack in stacks:
        statements.append(f"AM_PUT({size}, {_STACKS[stack]})")
        items.append(Item(f"{stack}_stack", "u64", size))
        size += 8
    return replace(payload, statements=" ".join(filter(None, statements)), items=tuple(items), size=size)


def _stack_class(point: ProbePoint) -> str:
    """What may interrupt the program of a point: see bpf/kernel/stacks.h."""
    if point.kind in USER_KINDS:
        return "AM_CLASS_USER"
    return "AM_CLASS_RAW" if syscall_number(point) is not None else "AM_CLASS_KERNEL"


def _record_size(payload: _Payload) -> int:
    return HEAD.itemsize + -(-payload.size // _CLASS_STEP) * _CLASS_STEP


def syscall_number(point: ProbePoint) -> int | None:
    """Number of the system call that a point traces; None for other points, and for calls with no known number."""
    if point.kind != "tracepoint" or point.target != "syscalls":
        return None
    return number_of(point.function)


def _context(point: ProbePoint, role: Role, condition: str, payload: _Payload, *, records: bool) -> dict[str, str]:
    """How the program of a point learns which point it runs for, and where its fields lie."""
    if point.kind != "tracepoint":
        return {"AM_OPEN": "", "AM_ARGUMENTS": "", "AM_FIELDS": "ctx"}
    if syscall_number(point) is None:
        return {"AM_OPEN": "u64 cookie = bpf_get_attach_cookie(ctx);", "AM_ARGUMENTS": "", "AM_FIELDS": "ctx"}
    on_exit = role == "exit" or point.function.startswith("sys_exit_")
    if on_exit:
        needs_fields = False
    elif role == "entry":
        needs_fields = bool(payload.saved) or "AM_FIELD(" in condition
    else:
        needs_fields = records or "AM_FIELD(" in condition
    arguments = ""
    if needs_fields:
        arguments = "AM_SYSCALL_ARGUMENTS"
    elif point.scope.name == "all":
        # A notebook's own tree is 64-bit; elsewhere 32-bit programs, whose numbers differ, must be told apart.
        arguments = "AM_SYSCALL_64_BIT"
    return {
        "AM_OPEN": "AM_SYSCALL_EXIT(AM_TABLE)" if on_exit else "AM_SYSCALL_ENTER(AM_TABLE)",
        "AM_ARGUMENTS": arguments,
        "AM_FIELDS": "(&am_call_record)",
    }


def _defines(
    point: ProbePoint, role: Role, payload: _Payload, ring: int | None, *, stacks: bool = False
) -> dict[str, str]:
    """Constants of the program that serves this point; equal constants mean one shared program."""
    on_exit = role == "exit"
    condition = point.filter.exit if on_exit else point.filter.entry
    defines = {
        **_context(point, role, condition, payload, records=ring is not None),
        "AM_ATOMIC": str(int(point.kind in USER_KINDS)),
        **_accessors(point),
    }
    if not on_exit:
        defines["AM_TREE"] = str(int(point.scope.name != "all"))
        # The tracer waits and copies memory: no driver's function runs on its behalf.
        defines["AM_NEVER_TRACER"] = str(int(point.kind in KERNEL_KINDS and bool(point.target)))
    if condition:
        defines["AM_FILTER"] = condition
        if point.filter.uses_comm:
            defines["AM_USES_COMM"] = ""
    if role != "plain":
        frame = "0" if point.kind == "tracepoint" else "AM_STACK_POINTER"
        defines["AM_FRAME"] = f"({frame} - 8)" if on_exit and point.kind != "tracepoint" else frame
        defines["AM_COUNT_AT_EXIT"] = str(int(bool(point.filter.exit)))
    if payload.total and role != "entry":
        defines["AM_TOTAL"] = payload.total
    if role == "entry":
        defines["AM_SAVE"] = " ".join(f"started.saved[{i}] = (u64){value};" for i, value in enumerate(payload.saved))
    elif ring is None:
        defines["AM_RECORDS"] = "0"
    else:
        defines["AM_RECORDS"] = "1"
        defines["AM_SIZE"] = str(_record_size(payload))
        defines["AM_RING_INDEX"] = str(ring)
        defines["AM_PAYLOAD"] = payload.statements
        if stacks:
            defines["AM_STACK_CLASS"] = _stack_class(point)
    return defines


def _instantiate(name: str, role: Role, defines: dict[str, str], table: int | None, *, part: bool = False) -> str:
    lines = [f"#define AM_NAME {name}", *(["#define AM_PART"] if part else [])]
    if table is not None:
        lines.append(f"#define AM_TABLE {table}")
    lines += [f"#define {key} {value}".rstrip() for key, value in defines.items()]
    lines.append(f'#include "{_TEMPLATES[role]}"')
    lines += [f"#undef {key}" for key in defines if re.fullmatch(r"AM_ARG\d+|AM_RETVAL", key)]
    if table is not None:
        lines.append("#undef AM_TABLE")
    return "\n".join(lines) + "\n"


def _dispatch(name: str, parts: int) -> str:
    """Write the program that calls the part which a point's cookie names."""
    cases = "".join(f"\tcase {part}: return {name}_{part}(ctx, cookie);\n" for part in range(parts))
    return (
        f"AM_PROGRAM({name})(void *ctx)\n{{\n\tu64 cookie = bpf_get_attach_cookie(ctx);\n\n"
        f"\tswitch (cookie >> 32) {{\n{cases}\t}}\n\treturn 0;\n}}\n"
    )


def _function_programs(
    units: list[tuple[Role, dict[str, str], list[int]]], names: Iterator[int]
) -> Iterator[tuple[Program, str]]:
    """Make one program of all that runs in the same role on functions: each link of its own would cost to attach.

    And a kernel before 6.14 sees only so many calls at once return, by the number of functions of the link: a few calls
    that sleep would use up what a link of one function has.
    """
    for role in dict.fromkeys(role for role, _, _ in units):
        same = [(defines, points) for each, defines, points in units if each == role]
        name = f"am_{role}_{next(names)}"
        text = [
            _instantiate(f"{name}_{part}", role, defines, None, part=True) for part, (defines, _) in enumerate(same)
        ]
        points = tuple(point for _, points in same for point in points)
        parts = tuple(part for part, (_, points) in enumerate(same) for _ in points)
        yield Program(name, role, points, parts), "".join(text) + _dispatch(name, len(same))


def _stack_headers(stacks: Iterable[StackKind]) -> list[str]:
    """What the programs take stacks with, and what they must know of this process's Python."""
    if not stacks:
        return []
    python = [*python_layout.layout().defines(), '#include "python.h"'] if "python" in stacks else []
    return ['#include "stacks.h"', *python]


def generate(plan: Plan) -> Source:
    """Write the programs of a plan. Points that need the same program share it, told apart by their cookie."""
    records = plan.records_events
    stacks = plan.stacks if records else ()
    payloads = [
        _with_stacks((_latency_payload if point.latency else _plain_payload)(point), stacks) for point in plan.points
    ]
    sizes = tuple(sorted({_record_size(payload) for payload in payloads})) if records else ()
    rings = [sizes.index(_record_size(payload)) if records else None for payload in payloads]

    shared: dict[tuple[Role, tuple[tuple[str, str], ...]], list[int]] = {}
    for point, payload, ring in zip(plan.points, payloads, rings, strict=True):
        roles: tuple[Role, ...] = ("entry", "exit") if point.latency else ("plain",)
        for role in roles:
            defines = _defines(point, role, payload, ring, stacks=bool(stacks))
            shared.setdefault((role, tuple(defines.items())), []).append(point.id)

    layout = Layout(
        cpus=power_of_two(possible_cpus()),
        points=max(power_of_two(len(plan.points)), 8),
        latencies=power_of_two(len(plan.latency_points)) if plan.latency_points else 0,
        record_sizes=sizes,
        point_layouts=tuple(
            PointLayout(ring, payload.items) for payload, ring in zip(payloads, rings, strict=True) if ring is not None
        ),
    )
    text = [
        f"#define AM_POINTS {layout.points}",
        f"#define AM_CPUS {layout.cpus}",
        '#include "common.h"',
        '#include "payload.h"',
        *_stack_headers(stacks),
    ]
    if layout.latencies:
        saved = max(len(payload.saved) for payload in payloads)
        text += [
            f"#define AM_LATENCIES {layout.latencies}",
            f"#define AM_SAVED_MAX {max(saved, 1)}",
            '#include "latency.h"',
        ]
    on_syscalls = [key for key, points in shared.items() if syscall_number(plan.points[points[0]]) is not None]
    if on_syscalls:
        text += [f"#define AM_SYSCALL_TABLES {len(on_syscalls)}", '#include "syscall.h"']
    programs: list[Program] = []
    names = count()
    on_functions: dict[bool, list[tuple[Role, dict[str, str], list[int]]]] = {}
    for key, points in shared.items():
        role, unit = key
        kind = plan.points[points[0]].kind
        if kind != "tracepoint":
            on_functions.setdefault(kind in USER_KINDS, []).append((role, dict(unit), points))
            continue
        name = f"am_{role}_{next(names)}"
        table = on_syscalls.index(key) if key in on_syscalls else None
        programs.append(Program(name, role, tuple(points), (0,) * len(points), table))
        text.append(_instantiate(name, role, dict(unit), table))
    for units in on_functions.values():
        for program, own in _function_programs(units, names):
            programs.append(program)
            text.append(own)
    return Source("\n".join(text) + "\n", tuple(programs), layout)


def started_size(plan: Plan) -> int:
    """Bytes of `struct am_started` in the text that `generate` writes for this plan."""
    saved = max((len(_latency_payload(point).saved) for point in plan.latency_points), default=0)
    return 8 + 8 * max(saved, 1)
