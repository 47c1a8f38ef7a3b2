"""A user's BCC program: where its functions belong, what of its maps can be read, and how it is attached."""

from __future__ import annotations

import errno
import re
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from accel_magic.errors import ProbeError, ProgramError
from accel_magic.kernel.attach.bindings import (
    RAW_TRACEPOINT,
    Place,
    attach_place,
    find_place,
    load_place,
    no_raw_tracepoint,
)
from accel_magic.kernel.attach.engine import attach_error
from accel_magic.kernel.bcc import compiler
from accel_magic.kernel.load import maps as map_reading
from accel_magic.kernel.load.links import Descriptors, Linker
from accel_magic.probes.globs import suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from accel_magic.kernel.bcc.compiler import Compiled, ProgramMap
    from accel_magic.probes.plan import Skipped

_SYSCALL_ENTRY = "__x64_sys_"
_NOT_ATTACHED_HERE = {
    "kfunc__": "kprobe:FUNCTION",
    "kretfunc__": "kretprobe:FUNCTION",
    "kmod_ret__": "kretprobe:FUNCTION",
    "lsm__": "kprobe:security_FUNCTION",
    "bpf_iter__": "a tracepoint or function",
}
"""BCC's other names that say where a function belongs, and what to attach instead."""


@dataclass
class UserProgram:
    """A compiled program with the places of its functions; its maps are open until `close`."""

    name: str
    compiled: Compiled
    places: tuple[Place, ...]
    notes: tuple[str, ...]
    histograms: frozenset[str]
    log2: bool
    _maps: Descriptors = field(default_factory=Descriptors, repr=False)
    _linker: Linker | None = field(default=None, repr=False)

    @property
    def rings(self) -> tuple[ProgramMap, ...]:
        """Its ring buffers."""
        return tuple(map_ for map_ in self.compiled.maps if map_.type == map_reading.RINGBUF)

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Places that the kernel refused to probe."""
        return tuple(self._linker.skipped.values()) if self._linker else ()

    def load(self) -> None:
        """Load every function.

        Raises:
            ProgramError: The verifier refuses one.
            MachineError: The kernel refuses altogether.

        """
        self._linker = Linker(self.compiled.functions, dict(self.compiled.map_fds))
        try:
            for place in self.places:
                load_place(self._linker, place)
        except ProgramError as error:
            raise ProgramError(
                f"{self.name}: {error.what}",
                why=error.why,
                fix="the last lines of the verifier's log above name the instruction and the rule it breaks; most "
                "often a pointer from a map or a context is used without the check for NULL or for its bounds",
                code=error.code,
            ) from None
        except OSError as error:
            raise attach_error(error) from None

    def attach(self) -> None:
        """Attach what `load` loaded.

        Raises:
            MachineError: The kernel refuses altogether.
            ProbeError: None of a function's places can be probed.

        """
        assert self._linker is not None  # noqa: S101 - after load
        for place in self.places:
            try:
                attach_place(self._linker, place, self.name)
            except OSError as error:
                if place.raw_tracepoint and error.errno == errno.ENOENT:
                    raise no_raw_tracepoint(place) from None
                raise attach_error(error) from None

    def detach(self) -> tuple[str, ...]:
        """Detach, and return when no function can run any more; gives what the user must know of it."""
        return self._linker.detach(together=True) if self._linker is not None else ()

    def misses(self) -> int:
        """Hits the kernel could not run a function for because one was running on that CPU already."""
        return self._linker.misses() if self._linker else 0

    def close(self) -> None:
        """Detach, and give programs and maps back; again is harmless."""
        with ExitStack() as undo:
            undo.callback(self._maps.close)
            if self._linker is not None:
                undo.callback(self._linker.close)
            self.detach()


def compile_program(path: Path, bindings: dict[str, list[str]]) -> UserProgram:
    """Read, compile and place a program; nothing is loaded or attached.

    Args:
        path: The C file.
        bindings: Specs by function (`parse_bindings`).

    Raises:
        ProgramError: The file cannot be read or does not compile, or a map in it cannot be served.
        ProbeError: A function that is attached nowhere, a binding of none, a place that is not there.
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
        notes.append("what bpf_trace_printk prints goes to the kernel's trace_pipe and is not shown here")
    histograms = frozenset(re.findall(r"\bBPF_HISTOGRAM\s*\(\s*(\w+)", code))
    return UserProgram(path.name, compiled, places, tuple(notes), histograms, "bpf_log2" in code, maps)


def read_source(path: Path) -> str:
    """Read the C file. Raises ProgramError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        why = "it is not text (UTF-8)"
    except OSError as error:
        why = error.strerror or str(error)
    raise ProgramError(
        f"the program {path} cannot be read",
        why=why,
        fix="--program names a C file, e.g. count.bpf.c",
        code="program.unreadable",
    )


def _without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)


def _check_maps(maps: Sequence[ProgramMap], file: str, code: str) -> None:
    for map_ in maps:
        if map_.type == map_reading.PERF_EVENT_ARRAY and not re.search(rf"\bBPF_PERF_ARRAY\s*\(\s*{map_.name}\b", code):
            raise ProgramError(
                f"{file}: {map_.name} is a BPF_PERF_OUTPUT",
                why="its buffers, one per CPU, lose the order of events and cost a wake-up each",
                fix=f"BPF_RINGBUF_OUTPUT({map_.name}, 64); and {map_.name}.ringbuf_output(&data, sizeof(data), 0)",
                code="program.perf-output",
            )
        if map_.type in (map_reading.PERF_EVENT_ARRAY, map_reading.PROG_ARRAY, map_reading.CGROUP_ARRAY):
            raise ProgramError(
                f"{file}: nothing fills the map {map_.name}",
                why="tail calls, perf counters and cgroup tests need a program of yours in user space",
                fix="count and measure in hashes, arrays and histograms; or run it with BCC's own Python",
                code="program.unsupported-map",
            )


def _places(file: str, functions: Sequence[str], bindings: dict[str, list[str]]) -> tuple[tuple[Place, ...], list[str]]:
    for name in bindings:
        if name not in functions:
            near = suggestion(name, functions)
            raise ProbeError(
                f"{file} has no function {name}",
                why=f"it has {', '.join(functions)}" if functions else "it has no function at all",
                fix=near or "a static function, or one that BCC inlined, cannot be attached",
                code="program.no-function",
            )
    if not functions:
        raise ProbeError(
            f"{file} has nothing to attach",
            why="it defines no function, or only static ones",
            fix="e.g. TRACEPOINT_PROBE(syscalls, sys_enter_openat) { ... }",
            code="program.nothing-to-attach",
        )
    places: list[Place] = []
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
    """Where a function belongs by BCC's naming: its spec, or nothing where the name tells none."""
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
        f"{file}: {function} is attached nowhere",
        why="its name does not tell its place (as TRACEPOINT_PROBE, RAW_TRACEPOINT_PROBE, kprobe__, kretprobe__ and "
        "syscall__ do) and no FUNCTION=SPEC binds it",
        fix=f"add {function}=SPEC, e.g. {function}=uprobe:libc:malloc; make it static inline if it is a helper",
        code="program.unbound-function",
    )
