"""Generate the C text of a plan's programs, and the layout of their records."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Literal

from accel_magic.errors import MachineError
from accel_magic.kernel import btf, features, scope
from accel_magic.kernel.attach import stack_maps
from accel_magic.kernel.attach.record_payloads import Payload, accessors, payload_of, record_size, saved_values
from accel_magic.kernel.attachment import NO_RECORDS, PointLayout, RecordLayout
from accel_magic.kernel.load import shared_functions
from accel_magic.kernel.load.bpf_maps import possible_cpus, power_of_two
from accel_magic.kernel.syscall_numbers import number_of
from accel_magic.probes import presets
from accel_magic.probes.plan import (
    KERNEL_KINDS,
    THREAD_KINDS,
    USER_KINDS,
    Plan,
    ProbePoint,
    StackKind,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Role = Literal["plain", "entry", "exit", "switch"]

MOST_CALLS = 16384
"""Maximum measured calls in progress at once."""
_MOST_OVER = 1 / 8
"""Share of them that may have ended without being removed from the table (bpf/kernel/ended.bpf.c)."""

_TEMPLATES: dict[Role, str] = {
    "plain": "probe.bpf.c",
    "entry": "latency_entry.bpf.c",
    "exit": "latency_exit.bpf.c",
    "switch": "offcpu.bpf.c",
}
_NO_BTF = (
    "32-bit system calls of 64-bit programs (int $0x80) are counted as the 64-bit calls with the same numbers: this "
    "kernel has no type information (BTF)"
)
_NO_INTERRUPTS = (
    "hits in interrupts are missing where they interrupt another user's process: this kernel, built without "
    "CONFIG_KALLSYMS_ALL, does not tell interrupts from calls"
)
_STATE_ARGUMENT_SINCE = (5, 18)
"""Linux version since which sched_switch has the state of the stopping task; read from the task it may be stale."""
_CREATE = frozenset({"dma_fence_init"})
"""Tracepoints that describe a new object."""
_NEVER_RETURN = frozenset({"do_exit", "do_group_exit", "do_task_dead", "make_task_dead"})
"""Kernel functions that end a thread. Their calls would stay in the table if they start after sched_process_exit."""
_MOST_PARTS_WITH_STACKS = 16
"""For kernels without bpf_loop: they verify at most a million instructions per program, and a part with stacks takes
37,000."""


@dataclass(frozen=True)
class BpfProgram:
    """One program of the text and the probe points it serves.

    `table` is its row in the table of system calls if it runs on the raw tracepoints of all calls, else None.
    `parts` has the number of each point's part of the program, which is also in the upper half of the point's cookie.
    """

    name: str
    role: Role
    points: tuple[int, ...]
    parts: tuple[int, ...]
    table: int | None = None


@dataclass(frozen=True)
class BpfSource:
    """C text for the compiler, its programs, the layout of maps and records, and notes on the counts for the result."""

    text: str
    programs: tuple[BpfProgram, ...]
    layout: RecordLayout
    notes: tuple[str, ...] = ()


def _stack_class(point: ProbePoint) -> str:
    """Class of a point's program, which determines what may interrupt it: see bpf/kernel/stacks.h."""
    if point.kind in THREAD_KINDS:
        return "AM_CLASS_PERF"
    if point.kind in USER_KINDS:
        return "AM_CLASS_USER"
    return "AM_CLASS_RAW" if syscall_number(point) is not None else "AM_CLASS_KERNEL"


def syscall_number(point: ProbePoint) -> int | None:
    """Number of the system call that a point traces; None for other points and unknown calls."""
    if point.kind != "tracepoint" or point.target != "syscalls":
        return None
    return number_of(point.function)


def _context(point: ProbePoint, role: Role, condition: str, payload: Payload, *, records: bool) -> dict[str, str]:
    """Constants by which a program finds its point, and the fields of the tracepoint."""
    if syscall_number(point) is None:
        cookie = "u64 cookie = bpf_get_attach_cookie(ctx);" if point.kind in ("tracepoint", "profile") else ""
        return {
            "AM_OPEN": cookie,
            "AM_PID_TGID": "bpf_get_current_pid_tgid()",
            "AM_ARGUMENTS": "",
            "AM_FIELDS": "ctx",
        }
    on_exit = role == "exit" or point.function.startswith("sys_exit_")
    if on_exit:
        needs_fields = False
    elif role == "entry":
        needs_fields = bool(payload.saved) or "AM_FIELD(" in condition
    else:
        needs_fields = records or "AM_FIELD(" in condition
    return {
        "AM_OPEN": "AM_SYSCALL_EXIT(AM_TABLE)" if on_exit else "AM_SYSCALL_ENTER(AM_TABLE)",
        "AM_PID_TGID": "AM_SYSCALL_PID_TGID",
        "AM_ARGUMENTS": "AM_SYSCALL_ARGUMENTS" if needs_fields else "",
        "AM_FIELDS": "(&am_call_record)",
    }


def _is_of_device(point: ProbePoint) -> bool:
    """Whether a point is a driver's: the tracer only waits and copies memory, so it never reaches one."""
    if point.kind == "tracepoint":
        return presets.has_interrupt_events(point.target)
    return point.kind in KERNEL_KINDS and bool(point.target)


def _defines(
    point: ProbePoint, role: Role, payload: Payload, ring: int | None, *, stacks: bool = False
) -> dict[str, str]:
    """Constants of the program for this point; points with equal constants share one program."""
    on_exit = role == "exit"
    condition = point.filter.exit if on_exit else point.filter.entry
    defines = {
        **_context(point, role, condition, payload, records=ring is not None),
        "AM_ATOMIC": str(int(point.kind in USER_KINDS)),
        **accessors(point),
        **_scope_defines(point, on_exit=on_exit),
    }
    if not on_exit:
        defines["AM_NEVER_TRACER"] = str(int(_is_of_device(point)))
    if condition:
        defines["AM_FILTER"] = condition
        if point.filter.uses_comm:
            defines["AM_USES_COMM"] = ""
    if role != "plain":
        defines.update(_pairing_defines(point, role))
    if payload.total and role != "entry":
        defines["AM_TOTAL"] = payload.total
    if point.counted and role != "entry":
        defines["AM_BY_THREAD"] = ""
    if role == "entry":
        defines["AM_SAVE"] = " ".join(f"started.saved[{i}] = (u64){value};" for i, value in enumerate(payload.saved))
    elif ring is None:
        defines["AM_RECORDS"] = "0"
    else:
        defines["AM_RECORDS"] = "1"
        defines["AM_SIZE"] = str(record_size(payload))
        defines["AM_RING_INDEX"] = str(ring)
        defines["AM_PAYLOAD"] = payload.statements
        if stacks:
            defines["AM_STACK_CLASS"] = _stack_class(point)
    return defines


def _whose(point: ProbePoint) -> str:
    """Whose hits count, by its name in bpf/kernel/common.h."""
    if point.scope.kernel:
        return "AM_OWN_AND_KERNEL"
    return "AM_EVERYBODY" if point.scope.name == "all" else "AM_OWN"


def _scope_defines(point: ProbePoint, *, on_exit: bool) -> dict[str, str]:
    """Constants for whose hits count, and whose are recorded."""
    scope = point.scope
    defines = {"AM_KERNEL_EVENTS": str(int(scope.kernel in ("events", "owned")))}
    if not on_exit or scope.kernel:
        defines["AM_TREE"] = _whose(point)
    if scope.kernel == "owned":
        (field,) = (field for field in point.fields if field.name == scope.object_field)
        defines["AM_OBJECT"] = f"AM_FIELD({field.type}, {field.offset})"
        defines["AM_CREATES"] = str(int(point.function in _CREATE))
    return defines


def _pairing_defines(point: ProbePoint, role: Role) -> dict[str, str]:
    """Additional constants for the entry and exit of a measured call."""
    defines = {"AM_COUNT_AT_EXIT": str(int(bool(point.filter.exit)))}
    if point.kind != "tracepoint":
        defines["AM_FRAME"] = "(AM_STACK_POINTER - 8)" if role == "exit" else "AM_STACK_POINTER"
    if _never_returns(point):
        defines["AM_NEVER_RETURNS"] = ""
    return defines


def _switch_defines(point: ProbePoint, payload: Payload, ring: int | None, row: int) -> dict[str, str]:
    """Constants of the program that measures waits; it has a single point and no cookie."""
    argument = features.kernel_version() >= _STATE_ARGUMENT_SINCE
    state = "(u32)(ctx)[3]"
    if not argument:
        state = f"AM_READ_KERNEL(u32, (ctx)[1] + {_task_member('__state')})"
    defines = {
        "AM_POINT": str(point.id),
        "AM_ROW": str(row),
        "AM_TREE": _whose(point),
        "AM_TASK_PID": str(_task_member("pid")),
        "AM_STATE_OF(ctx)": state,
    }
    if point.filter.entry:
        defines["AM_FILTER"] = point.filter.entry
    if point.filter.exit:
        defines["AM_FILTER_END"] = point.filter.exit
    if ring is None:
        return {**defines, "AM_RECORDS": "0"}
    if payload.saved:
        defines["AM_SAVE"] = " ".join(f"wait.stacks[{i}] = (u64){value};" for i, value in enumerate(payload.saved))
        defines["AM_STACK_CLASS"] = _stack_class(point)
    return {
        **defines,
        "AM_RECORDS": "1",
        "AM_SIZE": str(record_size(payload)),
        "AM_RING_INDEX": str(ring),
        "AM_SHORTEST": f"{point.shortest_ns}ULL",
        "AM_PAYLOAD": payload.statements,
    }


def _task_member(name: str) -> int:
    try:
        return btf.member_offset("task_struct", name)
    except MachineError as error:
        raise MachineError(
            "waits cannot be measured on this kernel",
            why=f"{error.what}: {error.why}",
            fix="use a kernel built with CONFIG_DEBUG_INFO_BTF, or profile:hz:99 with --scope all, which works without",
            code="kernel.no-waits",
        ) from None


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
    """Write the program that calls the part given by the point's cookie."""
    cases = "".join(f"\tcase {part}: return {name}_{part}(ctx, cookie);\n" for part in range(parts))
    return (
        f"AM_PROGRAM({name})(void *ctx)\n{{\n\tu64 cookie = bpf_get_attach_cookie(ctx);\n\n"
        f"\tswitch (cookie >> 32) {{\n{cases}\t}}\n\treturn 0;\n}}\n"
    )


def _function_programs(
    units: list[tuple[Role, dict[str, str], list[int]]], names: Iterator[int], most: int
) -> Iterator[tuple[BpfProgram, str]]:
    """Combine all function programs of the same role into one, with up to `most` parts, because each link is costly.

    Also, kernels before 6.14 limit the calls whose returns they track, in proportion to the functions of the link: a
    few sleeping calls would exhaust a link with one function.
    """
    by_role = [[unit for unit in units if unit[0] == role] for role in dict.fromkeys(role for role, _, _ in units)]
    for same_role in (chosen[at : at + most] for chosen in by_role for at in range(0, len(chosen), most)):
        role, same = same_role[0][0], [(defines, points) for _, defines, points in same_role]
        name = f"am_{role}_{next(names)}"
        text = [
            _instantiate(f"{name}_{part}", role, defines, None, part=True) for part, (defines, _) in enumerate(same)
        ]
        points = tuple(point for _, points in same for point in points)
        parts = tuple(part for part, (_, points) in enumerate(same) for _ in points)
        yield BpfProgram(name, role, points, parts), "".join(text) + _dispatch(name, len(same))


def _never_returns(point: ProbePoint) -> bool:
    return point.kind in KERNEL_KINDS and point.function in _NEVER_RETURN


def _roles(point: ProbePoint) -> tuple[Role, ...]:
    if point.kind == "offcpu":
        return ("switch",)
    if not point.latency:
        return ("plain",)
    return ("entry",) if _never_returns(point) else ("entry", "exit")


def _stack_headers(stacks: Iterable[StackKind], frames: int, constants: Sequence[str] | None) -> list[str]:
    """Headers for recording stacks, and the constants for the traced process's Python."""
    if not stacks:
        return []
    python: list[str] = []
    if "python" in stacks:
        from accel_magic.kernel.stacks import python_layout  # not needed by most traces

        python = [*(python_layout.layout().defines() if constants is None else constants), '#include "python.h"']
    return [*stack_maps.defines(frames), '#include "stacks.h"', *python]


def _task_members() -> dict[str, int]:
    """Offsets in struct task_struct of the members that system call programs read; {} without BTF."""
    try:
        return {
            "AM_TASK_STATUS": btf.member_offset("task_struct", "thread_info")
            + btf.member_offset("thread_info", "status"),
            "AM_TASK_PID": btf.member_offset("task_struct", "pid"),
            "AM_TASK_TGID": btf.member_offset("task_struct", "tgid"),
        }
    except MachineError:
        return {}


def _headers(
    plan: Plan,
    layout: RecordLayout,
    stacks: Iterable[StackKind],
    tables: int,
    members: dict[str, int],
    *,
    python: Sequence[str] | None,
    for_user: bool,
) -> list[str]:
    """Text before the programs. `tables` programs look up system calls; `members` are offsets in the task."""
    text = [
        f"#define AM_POINTS {layout.points}",
        f"#define AM_CPUS {layout.cpus}",
        f"#define AM_LOOPS {int(shared_functions.has_loops())}",
        *(f"#define {name} {offset}" for name, offset in members.items()),
        '#include "common.h"',
        '#include "payload.h"',
        *(_for_user() if for_user else ()),
        *_stack_headers(stacks, layout.stack_frames, python),
    ]
    if layout.latencies:
        text += [
            f"#define AM_LATENCIES {layout.latencies}",
            f"#define AM_SAVED_MAX {_most_saved(plan)}",
            f"#define AM_FUNCTION_CALLS {int(measures_functions(plan))}",
            f"#define AM_MOST_OVER {int(MOST_CALLS * _MOST_OVER)}",
            '#include "latency.h"',
        ]
    if waits_point(plan) is not None:
        text.append('#include "offcpu.h"')
    if tables:
        text += [f"#define AM_SYSCALL_TABLES {tables}", '#include "syscall.h"']
    return text


def _for_user() -> list[str]:
    """Header for what a driver does for all users, with its constants."""
    constants = {"AM_TASK_FLAGS": btf.member_offset("task_struct", "flags")}
    variable, offset = btf.preemption_count()
    if features.has_variable(variable):
        constants |= {"AM_PREEMPT_COUNT": variable, "AM_PREEMPT_COUNT_AT": offset}
    return [*(f"#define {name} {value}" for name, value in constants.items()), '#include "for_user.h"']


def generate(plan: Plan, python: Sequence[str] | None = None, *, for_user: bool = False) -> BpfSource:
    """Write the programs of a plan. Points that need the same program share it, distinguished by their cookies.

    Args:
        plan: What to trace.
        python: Constants for Python stacks, from `python_layout.defines`; None: for this process's Python.
        for_user: The trace is for a user without privilege: kernel addresses are replaced.

    """
    hides = for_user and any(point.kind in KERNEL_KINDS or point.scope.kernel for point in plan.points)
    records = plan.records_events
    recorded = [plan.records(point) for point in plan.points]
    stacks = plan.stacks if any(recorded) else ()
    payloads = [
        payload_of(point, stacks if own else (), hides=hides) for point, own in zip(plan.points, recorded, strict=True)
    ]
    size_of = [record_size(payload) if own else None for payload, own in zip(payloads, recorded, strict=True)]
    sizes = tuple(sorted({size for size in size_of if size is not None}))
    rings = [None if size is None else sizes.index(size) for size in size_of]

    shared: dict[tuple[Role, tuple[tuple[str, str], ...]], list[int]] = {}
    for point, payload, ring in zip(plan.points, payloads, rings, strict=True):
        for role in _roles(point):
            if role == "switch":
                defines = _switch_defines(point, payload, ring, plan.latency_points.index(point))
            else:
                defines = _defines(point, role, payload, ring, stacks=bool(stacks))
            shared.setdefault((role, tuple(defines.items())), []).append(point.id)

    layout = RecordLayout(
        cpus=power_of_two(possible_cpus()),
        points=max(power_of_two(len(plan.points)), 8),
        latencies=power_of_two(len(plan.latency_points)) if plan.latency_points else 0,
        record_sizes=sizes,
        point_layouts=tuple(
            NO_RECORDS if ring is None else PointLayout(ring, payload.items)
            for payload, ring in zip(payloads, rings, strict=True)
            if records
        ),
        stack_frames=stack_maps.native_frames() if stacks else 0,
    )
    on_syscalls = [key for key, points in shared.items() if syscall_number(plan.points[points[0]]) is not None]
    looks_at_calls = bool(on_syscalls) or waits_point(plan) is not None
    members = (_task_members() if looks_at_calls else {}) | (scope.dumpable() if for_user else {})
    text = _headers(plan, layout, stacks, len(on_syscalls), members, python=python, for_user=hides)
    programs: list[BpfProgram] = []
    names = count()
    on_functions: dict[bool, list[tuple[Role, dict[str, str], list[int]]]] = {}
    for key, points in shared.items():
        role, unit = key
        kind = plan.points[points[0]].kind
        if kind not in ("tracepoint", *THREAD_KINDS):
            on_functions.setdefault(kind in USER_KINDS, []).append((role, dict(unit), points))
            continue
        name = f"am_{role}_{next(names)}"
        table = on_syscalls.index(key) if key in on_syscalls else None
        programs.append(BpfProgram(name, role, tuple(points), (0,) * len(points), table))
        text.append(_instantiate(name, role, dict(unit), table))
    for units in on_functions.values():
        most = _MOST_PARTS_WITH_STACKS if stacks and not shared_functions.has_loops() else len(units)
        for program, own in _function_programs(units, names, most):
            programs.append(program)
            text.append(own)
    if calls_points(plan):
        text.append('#include "ended.bpf.c"')
    whole = "\n".join(text) + "\n"
    notes: tuple[str, ...] = (_NO_BTF,) if looks_at_calls and not members else ()
    if hides and "define AM_PREEMPT_COUNT " not in whole:
        notes += (_NO_INTERRUPTS,)
    return BpfSource(whole, tuple(programs), layout, notes)


def waits_point(plan: Plan) -> ProbePoint | None:
    """The point for waits, or None; a plan has at most one."""
    return next((point for point in plan.points if point.kind == "offcpu"), None)


def calls_points(plan: Plan) -> tuple[ProbePoint, ...]:
    """The points that measure calls."""
    return tuple(point for point in plan.latency_points if point.kind != "offcpu")


def measures_functions(plan: Plan) -> bool:
    """Whether some of the measured calls are function calls."""
    return any(point.kind != "tracepoint" for point in calls_points(plan))


def _most_saved(plan: Plan) -> int:
    return max((saved_values(point) for point in calls_points(plan)), default=0) or 1


def started_size(plan: Plan) -> int:
    """Bytes of `struct am_started` in the text generated for this plan."""
    return 16 + 8 * _most_saved(plan)
