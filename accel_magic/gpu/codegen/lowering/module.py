"""Lowering of a program to one LLVM module: addresses of its maps, its functions, and the function to inject."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.gpu.codegen.lowering import control
from accel_magic.gpu.codegen.lowering.emitter import Surroundings
from accel_magic.gpu.codegen.lowering.function import lower_function
from accel_magic.gpu.program import context
from accel_magic.gpu.program.sections import context_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accel_magic.gpu.codegen.lowering.backend_targets import BackendTarget, Traits
    from accel_magic.gpu.maps.map_layout import Placement
    from accel_magic.gpu.program.object_model import EbpfProgram, MapSpec, Per

_READ_ON_DEVICE: Final[Mapping[str, str]] = {"active": "@accel_helper_600", "launch": "@accel_launch"}
_LEADER: Final = "@accel_helper_601"
_FIVE: Final = "i64 0, i64 0, i64 0, i64 0, i64 0"


def probe_name(program: str) -> str:
    """Return the name of the function that is injected for a program."""
    return f"accel_{program}"


def lower(
    program: EbpfProgram,
    maps: Sequence[MapSpec],
    placement: Placement,
    *,
    target: BackendTarget,
    per: Per = "thread",
    promoted: frozenset[tuple[int, int]] = frozenset(),
    pointers: Mapping[tuple[int, int], str] | None = None,
) -> str:
    """Lower a program.

    Args:
        program: The program; it should have passed the verifier.
        maps: The object's maps in order: a map's handle is its index.
        placement: Addresses of the maps.
        target: The target machine.
        per: "warp" if the probe runs in the lowest active lane only; "block" for a kernel instead of a probe.
        promoted: (function index, slot) of loads whose load-modify-store becomes one atomic operation.
        pointers: (function index, slot) of memory accesses whose pointer the verifier knows: "stack", "map", "context".

    Returns:
        LLVM IR (text) that defines `void @accel_<name>` with the parameters of the program's context
        (`sections.context_of`), for "block" with one more, `context.RESULT`;
        `i64 @bpf_<name>(ptr context, i64 r2)`, and the constants that the helpers read; the helpers
        (`i64 @accel_helper_N(i64 x 5)`, `i64 @accel_launch()`) are declared.

    Raises:
        ProgramError: The program has instructions, jumps, calls or references that cannot be translated.

    """
    return lower_all(((program, promoted, pointers or {}),), maps, placement, target=target, per=per)


def lower_all(
    programs: Sequence[tuple[EbpfProgram, frozenset[tuple[int, int]], Mapping[tuple[int, int], str]]],
    maps: Sequence[MapSpec],
    placement: Placement,
    *,
    target: BackendTarget,
    per: Per = "thread",
    probes: bool = True,
) -> str:
    """Lower several programs, each with its `promoted` and `pointers`, into one module.

    Without `probes`, the functions `accel_<name>` and the helpers that only they need are omitted.
    """
    traits = target.value
    places = {spec.name: place for place, spec in enumerate(maps)}
    own = (*_READ_ON_DEVICE.values(), _LEADER) if probes else ()
    declared = {f"declare i64 {name}({_types(name)})" for name in own}
    defined = []
    for program, promoted, pointers in programs:
        around = Surroundings(program, tuple(maps), places, placement, traits, promoted, pointers)
        functions = [lower_function(around, place) for place in range(len(program.functions))]
        defined += ["\n".join(one.lines) for one in functions]
        declared.update(*(one.used for one in functions))
        looked_at = {part for one in functions for part in one.context}
        defined += [_entry(program), *([_probe(program, traits, per, looked_at)] if probes else [])]
    return "\n".join([*_constants(maps, placement), *sorted(declared), *defined, ""])


def _types(function: str) -> str:
    return "" if function == "@accel_launch" else ", ".join(["i64"] * 5)


def _constants(maps: Sequence[MapSpec], placement: Placement) -> list[str]:
    """Definitions of `accel_maps` (struct accel_map in the helpers' source) and the other constants."""
    rows = [
        f"%accel_map {{ i32 {spec.type}, i32 {spec.key_size}, i32 {spec.value_size}, i32 {spec.max_entries}, "
        f"i64 {base}, i64 {spec.stride - spec.value_size} }}"
        for spec, base in zip(maps, placement.bases, strict=True)
    ]
    content = f"[{', '.join(rows)}]" if rows else "zeroinitializer"
    numbers = {
        "accel_map_count": len(rows),
        "accel_threads": placement.threads,
        "accel_losses": placement.losses,
        "accel_printk": placement.printk,
        "accel_pid_tgid": placement.pid_tgid,
        "accel_launch_number": placement.launch,
    }
    return [
        "%accel_map = type { i32, i32, i32, i32, i64, i64 }",
        f"@accel_maps = constant [{len(rows)} x %accel_map] {content}, align 8",
        *(f"@{name} = constant i64 {value}, align 8" for name, value in numbers.items()),
    ]


def _entry(program: EbpfProgram) -> str:
    """Make the program callable with any context, on the host CPU and in tests."""
    inner = control.function_name(program.name, 0)
    return "\n".join(
        [
            f'define i64 @"bpf_{program.name}"(ptr %context, i64 %size) nounwind {{',
            f"  %r0 = call i64 {inner}(ptr %context, i64 %size)",
            "  ret i64 %r0",
            "}",
        ]
    )


def _probe(program: EbpfProgram, traits: Traits, per: Per, looked_at: set[tuple[int, int]]) -> str:
    """Make the function that is injected: it fills in the context fields that are read, and runs the program."""
    struct = context_of(program)
    fields = [
        field
        for field in struct.fields
        if any(start < field.offset + field.size and field.offset < end for start, end in looked_at)
    ]
    given = [*struct.parameters, *([(context.RESULT, 8)] if per == "block" else [])]
    parameters = ", ".join(f"i{8 * size} %{name}" for name, size in given)
    kernel = "ptx_kernel " if per == "block" and traits.device else ""
    attributes = f"{'convergent ' * traits.device}nounwind"
    space = f", addrspace({traits.stack})" if traits.stack else ""
    kind = f"ptr addrspace({traits.stack})" if traits.stack else "ptr"
    cast = f"addrspacecast {kind} %memory to ptr" if traits.stack else "getelementptr i8, ptr %memory, i64 0"
    return "\n".join(
        [
            f'define {kernel}void @"{probe_name(program.name)}"({parameters}) {attributes} {{',
            "entry:",
            f"  %memory = alloca [{struct.size} x i8], align 8{space}",
            f"  %context = {cast}",
            # The mask must contain all lanes that reach the probe, so it is read before the guard.
            *(line for field in fields for line in _read(field)),
            *_guard(per),
            "run:",
            *(line for field in fields for line in _fill(field)),
            f"  %r0 = call i64 {control.function_name(program.name, 0)}(ptr %context, i64 0)",
            *(_keep_result(traits) if per == "block" else []),
            "  br label %done",
            "done:",
            "  ret void",
            "}",
        ]
    )


def _guard(per: Per) -> list[str]:
    if per != "warp":
        return ["  br label %run"]
    return [
        f"  %is_leader = call i64 {_LEADER}({_FIVE})",
        "  %runs = icmp ne i64 %is_leader, 0",
        "  br i1 %runs, label %run, label %done",
    ]


def _keep_result(traits: Traits) -> list[str]:
    kind = f"ptr addrspace({traits.global_})" if traits.global_ else "ptr"
    return [
        f"  %{context.RESULT}.at = inttoptr i64 %{context.RESULT} to {kind}",
        "  %returned = trunc i64 %r0 to i32",
        f"  store i32 %returned, {kind} %{context.RESULT}.at, align 4",
    ]


def _read(field: context.ContextField) -> list[str]:
    """Read a field from the device if it is not a parameter."""
    if field.injected:
        return []
    function = _READ_ON_DEVICE[field.name]
    whole = field.name if field.size == 8 else f"{field.name}.all"
    lines = [f"  %{whole} = call i64 {function}({'' if function == '@accel_launch' else _FIVE})"]
    if field.size < 8:
        lines.append(f"  %{field.name} = trunc i64 %{whole} to i{8 * field.size}")
    return lines


def _fill(field: context.ContextField) -> list[str]:
    return [
        f"  %{field.name}.at = getelementptr i8, ptr %context, i64 {field.offset}",
        f"  store i{8 * field.size} %{field.name}, ptr %{field.name}.at, align {field.size}",
    ]
