"""From one probe spec to the concrete places it means on this machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from accel_magic.errors import MachineError, ProbeError
from accel_magic.probes import kernel_functions, presets, tracefs
from accel_magic.probes.globs import matcher, suggestion
from accel_magic.probes.plan import KERNEL_KINDS, THREAD_KINDS, UNREADABLE, ProbePoint, ProbeSpec, Skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from accel_magic.probes.tracefs import Format

_ENTER, _EXIT = "sys_enter_", "sys_exit_"
_COLD = ".cold"
_IN_THE_LAB = {
    "intel_vpu": "; without an NPU: the Jupyter kernel 'Python 3 (NPU lab)', or python -m accel_magic lab trace --help"
}


@dataclass(frozen=True)
class Expansion:
    """What a spec matched: points (ids all 0, no scope and no filter yet), what was left out, what to tell the user."""

    points: list[ProbePoint]
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def expand(spec: ProbeSpec, *, pid: int | None, root: Path) -> Expansion:
    """Find the places that `spec` means.

    Args:
        spec: A probe; exclusions are expanded with `excluded`.
        pid: Process whose libraries are asked first.
        root: Folder that stands for `/` where the kernel's lists are read.

    Raises:
        ProbeError: Nothing matches; near names are suggested.
        MachineError: The kernel cannot do it, or the module is not loaded.

    """
    if spec.kind in THREAD_KINDS:
        return Expansion([_of_threads(spec)])
    if spec.kind in KERNEL_KINDS:
        expansion = _kernel(spec, root)
    elif spec.kind == "tracepoint":
        expansion = _tracepoints(spec, root)
    elif spec.kind == "usdt":
        expansion = _usdt(spec, pid)
    else:
        expansion = _user_functions(spec, pid)
    if not expansion.points:
        reasons = list(dict.fromkeys(f"{skipped.function}: {skipped.why}" for skipped in expansion.skipped))
        raise ProbeError(
            f"{spec.text!r}: nothing that matches can be traced", why="; ".join(reasons[:3]), code="probe.untraceable"
        )
    return expansion


def excluded(spec: ProbeSpec, *, pid: int | None) -> Callable[[ProbePoint], bool]:
    """Make the test for points that the exclusion `spec` takes out; entry and return are one place.

    Raises:
        ProbeError: Its library is not there.

    """
    test = matcher(spec.name)
    if spec.kind in KERNEL_KINDS:
        module = "" if spec.target == kernel_functions.KERNEL else spec.target
        kinds = KERNEL_KINDS
        in_target = (lambda point: point.target == module) if spec.target else (lambda _point: True)
    elif spec.kind == "tracepoint":
        category = matcher(spec.target)
        kinds = ("tracepoint",)
        in_target = lambda point: category(point.target)  # noqa: E731
    else:
        from accel_magic.probes import libraries

        path = str(libraries.resolve(spec.target, pid))
        kinds = ("usdt",) if spec.kind == "usdt" else ("uprobe", "uretprobe")
        in_target = lambda point: point.target == path  # noqa: E731
    if spec.kind == "usdt":
        provider, name = matcher(spec.provider), matcher(spec.name)
        test = lambda text: provider(text.partition(":")[0]) and name(text.partition(":")[2])  # noqa: E731

    def takes_out(point: ProbePoint) -> bool:
        return point.kind in kinds and in_target(point) and any(map(test, (point.function, *point.aliases)))

    return takes_out


def _of_threads(spec: ProbeSpec) -> ProbePoint:
    """Make the point of a clock's samples, or that of waits: all waits are one point, whatever their number's unit."""
    number = int(spec.name)
    if spec.kind == "profile":
        return ProbePoint(0, spec.text, spec.kind, "cpu-clock", f"{number} Hz", rate_hz=number)
    return ProbePoint(0, spec.text, spec.kind, "sched", "wait", latency=True, shortest_ns=number * 1000)


def _kernel(spec: ProbeSpec, root: Path) -> Expansion:
    try:
        kernel_functions.check_supported(root)
    except MachineError as error:
        raise MachineError(
            error.what, why=error.why, fix=error.fix + _IN_THE_LAB.get(spec.target, ""), code=error.code
        ) from None
    known = kernel_functions.load(root)
    module = spec.target
    if module and module != kernel_functions.KERNEL and module not in known.modules:
        if not (spec.optional and kernel_functions.is_built_in(module, root)):
            raise _no_module(spec, known.modules, root)
        module = kernel_functions.KERNEL
    found, skipped = known.match(module, spec.name)
    if not found and not skipped and spec.optional:  # a name of other kernels: nothing to look for any further
        raise ProbeError(f"{spec.text}: this kernel's {module} has no {spec.name}", code="probe.not-in-kernel")
    if not found and not skipped:
        table = kernel_functions.symbols(root)
        alias = kernel_functions.alias_of(known, module, spec.name, table)
        found = [alias] if alias is not None else []
        if not found and kernel_functions.exists(module, spec.name, table):
            raise ProbeError(
                f"{spec.text!r}: the kernel has this function, but it cannot be traced",
                why="the kernel bars probes from it, or calls to it bypass ftrace",
                fix="trace one of its callers",
                code="probe.untraceable",
            )
        if not found:
            names = [item.name for item in known.inside(module)]
            raise _unmatched(spec, "kernel functions" + (f" of {module}" if module else ""), names)
    points = [
        ProbePoint(0, spec.text, spec.kind, item.module, item.name, spec.latency, aliases=item.aliases)
        for item in found
    ]
    return Expansion(points, skipped)


def _no_module(spec: ProbeSpec, modules: Iterable[str], root: Path) -> MachineError | ProbeError:
    module = spec.target
    if kernel_functions.is_built_in(module, root):
        return ProbeError(
            f"{spec.text!r}: {module} is not a module of this kernel but built into it",
            why="its functions are among the kernel's own",
            fix=f"write {spec.kind}:{spec.name} with a name that only {module} uses",
            code="probe.module-built-in",
        )
    near = suggestion(module, modules)
    return MachineError(
        f"{spec.text!r}: the kernel module {module} is not loaded",
        why="its functions appear when it is",
        fix=f"modprobe {module}" + (f"  ({near})" if near else "") + _IN_THE_LAB.get(module, ""),
        code="probe.module-not-loaded",
    )


def _tracepoints(spec: ProbeSpec, root: Path) -> Expansion:
    mounted = tracefs.find(root)
    all_categories = tracefs.categories(mounted)
    categories = list(filter(matcher(spec.target), all_categories))
    if not categories:
        raise _unmatched(spec, "categories of tracepoints", all_categories, spec.target)
    test = matcher(spec.name)
    events = [(category, event) for category in categories for event in tracefs.events(mounted, category)]
    points, skipped = [], []
    for category, event in events:
        if not test(event):
            continue
        point = _tracepoint(spec, category, event, partial(tracefs.read_format, mounted, category))
        if point:
            points.append(point)
        else:
            skipped.append(Skipped(event, "this kernel has no tracepoint for its return"))
    if not points and not skipped:
        raise _unmatched(spec, f"tracepoints of {', '.join(categories[:5])}", (event for _, event in events))
    return Expansion(points, skipped)


def _tracepoint(spec: ProbeSpec, category: str, event: str, read: Callable[[str], Format]) -> ProbePoint | None:
    """Make the point of one event; None for a latency whose end has no tracepoint."""
    described = read(event)
    exit_id = 0
    if spec.latency:
        try:
            exit_id = read(_EXIT + event.removeprefix(_ENTER)).id
        except ProbeError:
            return None
    return ProbePoint(
        0,
        spec.text,
        spec.kind,
        category,
        event,
        spec.latency,
        event_id=described.id,
        exit_event_id=exit_id,
        fields=described.fields,
        record_end=described.record_end,
    )


def _user_functions(spec: ProbeSpec, pid: int | None) -> Expansion:
    from accel_magic.probes import libraries, symbols  # they bring an ELF reader and numpy

    try:
        path = libraries.resolve(spec.target, pid)
        known = symbols.functions(path)
        if not known.names:
            raise symbols.no_symbols(path)
        found = known.match(spec.name)
        if not found:
            raise _unmatched(spec, f"functions of {path}", known.names)
    except ProbeError as error:
        if presets.is_npu_driver(spec.target) and spec.name.startswith("ze"):
            raise _in_the_loader(spec, error) from None
        raise
    points, skipped, resolvers = [], [], []
    for function in found:
        if _COLD in function.name:
            skipped.append(Skipped(function.name, "it is the cold part of a function, not a function"))
        elif function.ifunc and spec.latency:
            skipped.append(Skipped(function.name, "it is an IFUNC resolver: calls go to the function it picked"))
        else:
            resolvers += [function.name] if function.ifunc else []
            points.append(
                ProbePoint(
                    0,
                    spec.text,
                    spec.kind,
                    str(path),
                    function.name,
                    spec.latency,
                    offset=function.offset,
                    aliases=function.aliases,
                )
            )
    return Expansion(points, skipped, [_about_resolvers(spec, resolvers)] if resolvers else [])


def _in_the_loader(spec: ProbeSpec, error: ProbeError) -> ProbeError:
    """Error for a function of Level Zero that was looked for in the NPU driver's library."""
    name = "zeMemAllocHost" if set(spec.name) & set("*?[") else spec.name
    return ProbeError(
        error.what,
        why=f"{error.why}; {presets.WHY_THE_LOADER}" if error.why else presets.WHY_THE_LOADER,
        fix=f"{spec.kind}:{presets.LOADER}:{name}, or npu:api for all calls that reach the driver; if there is no "
        f"loader: {presets.INSTALL[presets.LOADER]}",
        code="probe.npu-driver-library",
    )


def _about_resolvers(spec: ProbeSpec, names: list[str]) -> str:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"{spec.text}: of {shown} only the IFUNC resolver is seen, which runs once; calls go to the function it picked"
    )


def _usdt(spec: ProbeSpec, pid: int | None) -> Expansion:
    from accel_magic.probes import libraries, usdt

    path = libraries.resolve(spec.target, pid)
    known = usdt.probes(path)
    if not known:
        raise ProbeError(
            f"{spec.text!r}: {path} has no USDT probes",
            fix="uprobe:LIBRARY:FUNCTION works without them",
            code="probe.no-usdt",
        )
    provider, name = matcher(spec.provider), matcher(spec.name)
    points = []
    notes: dict[str, None] = {}
    for probe in known:
        if not (provider(probe.provider) and name(probe.name)):
            continue
        function = f"{probe.provider}:{probe.name}"
        unreadable = [f"arg{at}" for at, argument in enumerate(probe.arguments) if argument == UNREADABLE]
        if unreadable:
            notes[f"{function}: {', '.join(unreadable)} of {probe.argument_text!r} cannot be read (shown as 0)"] = None
        points.append(
            ProbePoint(
                0,
                spec.text,
                spec.kind,
                str(path),
                function,
                offset=probe.offset,
                usdt_arguments=probe.arguments,
                semaphore=probe.semaphore,
            )
        )
    if not points:
        names = {f"{probe.provider}:{probe.name}" for probe in known}
        raise _unmatched(spec, f"USDT probes of {path}", names, f"{spec.provider}:{spec.name}")
    return Expansion(sorted(points, key=lambda point: (point.function, point.offset)), notes=list(notes))


def _unmatched(spec: ProbeSpec, among: str, names: Iterable[str], wanted: str = "") -> ProbeError:
    names = list(names)
    return ProbeError(
        f"{spec.text!r} matches nothing",
        why=f"none of the {len(names)} {among} is called {wanted or spec.name}",
        fix=suggestion(wanted or spec.name, names) or "use a wider glob; Tab completes names",
        code="probe.no-match",
    )
