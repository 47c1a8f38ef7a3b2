"""A user's BCC program: the places of its functions, its maps, and attaching it."""

from __future__ import annotations

import errno
import re
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from accel_magic.errors import ProbeError, ProgramError
from accel_magic.kernel.attach.function_bindings import (
    RAW_TRACEPOINT,
    FunctionBinding,
    attach_place,
    find_place,
    load_place,
    no_raw_tracepoint,
)
from accel_magic.kernel.attach.kernel_engine import attach_error
from accel_magic.kernel.bcc import compiler
from accel_magic.kernel.load import bpf_maps
from accel_magic.kernel.load.bpf_links import Descriptors, Linker
from accel_magic.probes.globs import suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from accel_magic.kernel.bcc.compiler import CompiledPrograms, ProgramMap
    from accel_magic.probes.plan import Skipped

_SYSCALL_ENTRY = "__x64_sys_"
_NOT_ATTACHED_HERE = {
    "kfunc__": "kprobe:FUNCTION",
    "kretfunc__": "kretprobe:FUNCTION",
    "kmod_ret__": "kretprobe:FUNCTION",
    "lsm__": "kprobe:security_FUNCTION",
    "bpf_iter__": "a tracepoint or function",
}
"""BCC's other name prefixes that imply a place, and what to use instead."""


@dataclass
class UserProgram:
    """A compiled program and the places of its functions; its maps are open until `close`."""

    name: str
    compiled: CompiledPrograms
    places: tuple[FunctionBinding, ...]
    notes: tuple[str, ...]
    histograms: frozenset[str]
    log2: bool
    _maps: Descriptors = field(default_factory=Descriptors, repr=False)

    def __post_init__(self) -> None:
        self._linker = Linker(self.compiled.functions, dict(self.compiled.map_fds))

    @property
    def rings(self) -> tuple[ProgramMap, ...]:
        """Its ring buffers."""
        return tuple(map_ for map_ in self.compiled.maps if map_.type == bpf_maps.RINGBUF)

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Places that the kernel could not probe."""
        return tuple(self._linker.skipped.values())

    def load(self) -> None:
        """Load every function.

        Raises:
            ProgramError: The verifier rejects a function.
            MachineError: The kernel rejects the call.

        """
        try:
            for place in self.places:
                load_place(self._linker, place)
        except ProgramError as error:
            raise ProgramError(
                f"{self.name}: {error.what}",
                why=error.why,
                fix="see the end of the verifier's log above for the instruction and the violated rule; most often a "
                "NULL check or bounds check of a pointer is missing",
                code=error.code,
            ) from None
        except OSError as error:
            raise attach_error(error) from None

    def attach(self) -> None:
        """Attach the loaded functions.

        Raises:
            MachineError: The kernel rejects the call.
            ProbeError: None of a function's places can be probed.

        """
        for place in self.places:
            try:
                attach_place(self._linker, place, self.name)
            except OSError as error:
                if place.raw_tracepoint and error.errno == errno.ENOENT:
                    raise no_raw_tracepoint(place) from None
                raise attach_error(error) from None

    def detach(self) -> tuple[str, ...]:
        """Detach, and wait until no function runs any more; return notes for the user."""
        return self._linker.detach(together=True)

    def misses(self) -> int:
        """Number of hits for which no function ran because one was already running on that CPU."""
        return self._linker.misses()

    def close(self) -> None:
        """Detach, and close programs and maps; repeated calls are harmless."""
        with ExitStack() as undo:
            undo.callback(self._maps.close)
            undo.callback(self._linker.close)
            self.detach()


def compile_program(path: Path, bindings: dict[str, list[str]]) -> UserProgram:
    """Read and compile a program, and find its places; nothing is loaded or attached.

    Args:
        path: The C file.
        bindings: Specs by function (`parse_bindings`).

    Raises:
        ProgramError: The file cannot be read or does not compile, or has an unsupported map.
        ProbeError: A function has no place, a binding has no function, or a place does not exist.
        MachineError: BCC or a kernel feature is missing.

    """
    text = read_source(path)
    compiled = compiler.compile_user(text, path.name)
    maps = Descriptors()
    for map_ in compiled.maps:
        maps.add(map_.fd)
    code = _without_comments(text)
    try:
        _check_maps(compiled.maps, path.name, code)
        places, notes = _places(path.name, tuple(compiled.functions), bindings)
    except BaseException:
        maps.close()
        raise
    if "bpf_trace_printk" in code:
        notes.append("output of bpf_trace_printk goes to the kernel's trace_pipe and is not shown here")
    histograms = frozenset(re.findall(r"\bBPF_HISTOGRAM\s*\(\s*(\w+)", code))
    return UserProgram(path.name, compiled, places, tuple(notes), histograms, "bpf_log2" in code, maps)


def read_source(path: Path) -> str:
    """Read the C file. Raises ProgramError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        why = "it is not text (UTF-8)"
    except OSError as error:
        why = error.strerror or str(error)
    raise ProgramError(
        f"the program {path} cannot be read",
        why=why,
        fix="give --program a C file, e.g. count.bpf.c",
        code="program.unreadable",
    )


def _without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)


def _check_maps(maps: Sequence[ProgramMap], file: str, code: str) -> None:
    for map_ in maps:
        if map_.type == bpf_maps.PERF_EVENT_ARRAY and not re.search(rf"\bBPF_PERF_ARRAY\s*\(\s*{map_.name}\b", code):
            raise ProgramError(
                f"{file}: {map_.name} is a BPF_PERF_OUTPUT, which is not supported",
                why="its per-CPU buffers lose the order of events and need a wakeup each",
                fix=f"use BPF_RINGBUF_OUTPUT({map_.name}, 64); and {map_.name}.ringbuf_output(&data, sizeof(data), 0)",
                code="program.perf-output",
            )
        if map_.type in (bpf_maps.PERF_EVENT_ARRAY, bpf_maps.PROG_ARRAY, bpf_maps.CGROUP_ARRAY):
            raise ProgramError(
                f"{file}: the map {map_.name} is not supported",
                why="maps for tail calls, perf counters and cgroup tests must be filled by a user-space program",
                fix="use hashes, arrays and histograms; or run the program with BCC's Python module",
                code="program.unsupported-map",
            )


def _places(
    file: str, functions: Sequence[str], bindings: dict[str, list[str]]
) -> tuple[tuple[FunctionBinding, ...], list[str]]:
    for name in bindings:
        if name not in functions:
            near = suggestion(name, functions)
            raise ProbeError(
                f"{file} has no function {name}",
                why=f"it has {', '.join(functions)}" if functions else "it has no functions",
                fix=near or "name one of these; static functions and functions inlined by BCC cannot be attached",
                code="program.no-function",
            )
    if not functions:
        raise ProbeError(
            f"{file} has nothing to attach",
            why="it defines no functions, or only static ones",
            fix="add one, e.g. TRACEPOINT_PROBE(syscalls, sys_enter_openat) { ... }",
            code="program.nothing-to-attach",
        )
    places: list[FunctionBinding] = []
    notes: list[str] = []
    for name in functions:
        specs = bindings.get(name) or own_place(name)
        if not specs:
            raise _unattached(file, name)
        place, remarks = find_place(name, specs)
        first = sum(len(other.points) for other in places)
        points = tuple(replace(point, id=first + point.id) for point in place.points)
        places.append(replace(place, points=points))
        notes += [f"{name}: {remark}" for remark in remarks]
    return tuple(places), notes


def own_place(function: str) -> list[str]:
    """Spec implied by a function's name in BCC's naming scheme; empty if it implies none."""
    prefix, separator, rest = function.partition("__")
    if not separator or not rest:
        return []
    if prefix == "tracepoint":
        category, _, event = rest.partition("__")
        return [f"tracepoint:{category}:{event}"]
    if prefix == "raw_tracepoint":
        return [f"{RAW_TRACEPOINT}{rest}"]
    if prefix == "syscall":
        return [f"kprobe:{_SYSCALL_ENTRY}{rest}"]
    if prefix in ("kprobe", "kretprobe"):
        return [f"{prefix}:{re.sub('^sys_', _SYSCALL_ENTRY, rest)}"]
    return []


def _unattached(file: str, function: str) -> ProbeError:
    for prefix, instead in _NOT_ATTACHED_HERE.items():
        if function.startswith(prefix):
            return ProbeError(
                f"{file}: {function} cannot be attached",
                why=f"programs named {prefix} (fentry, LSM, iterators) are not supported",
                fix=f"write it for {instead} and bind it: FUNCTION=SPEC",
                code="program.unsupported-kind",
            )
    return ProbeError(
        f"{file}: {function} has no place to attach",
        why="its name does not imply one (as with TRACEPOINT_PROBE, RAW_TRACEPOINT_PROBE, kprobe__, kretprobe__ and "
        "syscall__) and no FUNCTION=SPEC binds it",
        fix=f"add {function}=SPEC, e.g. {function}=uprobe:libc:malloc; make it static inline if it is a helper",
        code="program.unbound-function",
    )
