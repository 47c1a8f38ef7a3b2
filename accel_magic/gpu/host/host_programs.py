"""The CPU programs of a GPU trace: loaded before maps are allocated, attached for the cell, unloaded after it."""

from __future__ import annotations

import errno
import re
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from accel_magic.errors import AccelMagicError, MachineError, ProbeError, ProgramError
from accel_magic.gpu.host.attach_points import specs_of
from accel_magic.gpu.host.host_code import bytecode, line_of
from accel_magic.gpu.host.kernel_maps import KernelMaps
from accel_magic.gpu.program import isa
from accel_magic.kernel import bpf_syscalls, features, own_threads
from accel_magic.kernel.attach.function_bindings import (
    FunctionBinding,
    attach_place,
    find_place,
    load_place,
    no_raw_tracepoint,
)
from accel_magic.kernel.attach.kernel_engine import attach_error
from accel_magic.kernel.load.bpf_links import Linker
from accel_magic.quantities import sentence_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from accel_magic.gpu.maps.map_content import MapContent
    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.object_model import EbpfProgram
    from accel_magic.gpu.program.program_source import GpuSource

_EVERY_S: Final = 0.02
_PRINTING: Final = (6, 177)
"""bpf_trace_printk and bpf_trace_vprintk."""
_CHECK: Final = "see the verifier's messages above for the instruction and the rule that it breaks"
_NOT_ATOMIC: Final = (
    "{}: CPU and GPU programs both do atomic operations, and share some maps. Simultaneous updates of one value are "
    "exact only if the GPU supports atomics on host memory (NVLink, not all of PCI Express); otherwise give each side "
    "its own value"
)


@dataclass(frozen=True)
class _Loaded:
    """The programs of one source that can be attached."""

    source: GpuSource
    maps: KernelMaps
    linker: Linker
    placed: tuple[tuple[EbpfProgram, FunctionBinding], ...]


@dataclass
class HostPrograms:
    """The CPU programs of a cell: `load`, `attach`, `detach`, `contents`, `close`.

    Attributes:
        notes: Where each program ran, which were not attached and why, and losses.

    """

    notes: list[str] = field(default_factory=list)
    _loaded: list[_Loaded] = field(default_factory=list, repr=False)
    _bound: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)
    _needed: bool = False
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)
    _reader: threading.Thread | None = field(default=None, repr=False)

    @classmethod
    def load(
        cls, sources: Sequence[GpuSource], bindings: Mapping[str, Sequence[str]], *, simulated: bool
    ) -> HostPrograms:
        """Create the kernel's maps and load all programs that can be attached; nothing runs yet.

        A program that this machine cannot run is reported in `notes`; it is an error if the trace has no GPU programs,
        or if the line binds the program.

        Args:
            sources: With programs for both sides.
            bindings: Places by program (`accel_magic.kernel.attach.function_bindings.parse_bindings`).
            simulated: Whether the device is simulated: its atomic operations are the processor's.

        Raises:
            ProgramError: The kernel refuses a program or a map.
            ProbeError: The place of a binding does not exist.
            MachineError: The trace has CPU programs only, and this process may not run them.

        """
        made = cls(_bound=bindings, _needed=not any(source.gpu for source in sources))
        try:
            for source in sources:
                if source.cpu:
                    made._load(source)
            made._need_one()
            if not simulated:
                made.notes += [_NOT_ATOMIC.format(each.source.name) for each in made._loaded if _both_add(each.source)]
        except BaseException:
            made.close()
            raise
        return made

    def settled(self, sources: Sequence[GpuSource]) -> tuple[GpuSource, ...]:
        """Return the sources as they run: without a running CPU program, all maps are the GPU's alone."""
        running = {id(loaded.source) for loaded in self._loaded}
        return tuple(source if id(source) in running else _alone(source) for source in sources)

    def descriptors(self, source: GpuSource) -> Mapping[str, int]:
        """Return the arrays of a source that CPU and GPU programs share: open descriptors by name."""
        shared = [spec.name for spec in source.object.maps if spec.used_by == "both"]
        found = next((each.maps.descriptors for each in self._loaded if each.source is source), {})
        return {name: found[name] for name in shared if name in found}

    def _need_one(self) -> None:
        if self._needed and not self._loaded:
            raise ProbeError(
                "none of the programs can be attached",
                why="\n".join(self.notes),
                fix="follow the advice above",
                code="gpu.nothing-attached",
            )

    def _load(self, source: GpuSource) -> None:
        if (missing := unavailable()) is not None:
            if self._needed:
                raise missing
            self.notes += [_not_attached(program, missing) for program in source.cpu]
            return
        placed = tuple(
            (program, place) for program in source.cpu if (place := self._place(source, program)) is not None
        )
        if not placed:
            return
        shared = [spec for spec in source.object.maps if spec.used_by == "both"]
        maps = KernelMaps.create(source.name, source.kernel_maps, shared, source.filled)
        linker = Linker({}, {descriptor: descriptor for descriptor in maps.descriptors.values()}, source.object.license)
        self._loaded.append(_Loaded(source, maps, linker, placed))
        for program, place in placed:
            linker.code[program.name] = bytecode(program, maps.descriptors)
            try:
                load_place(linker, place)
            except ProgramError as error:
                raise _refused(source, program, error) from None

    def _place(self, source: GpuSource, program: EbpfProgram) -> FunctionBinding | None:
        bound = self._bound.get(program.name, ())
        try:
            place, remarks = _found(source, program, bound)
        except AccelMagicError as error:
            if bound:
                raise
            self.notes.append(_not_attached(program, error))
            return None
        self.notes += [f"{program.name}: {remark}" for remark in remarks]
        return place

    def attach(self) -> None:
        """Attach the programs.

        Raises:
            ProbeError: None of the places of a program can be probed, and the line binds it or nothing else is traced.
            MachineError: The kernel refuses to attach a program, likewise.

        """
        for loaded in self._loaded:
            for program, place in loaded.placed:
                self._attach(loaded, program, place)
        if any(loaded.maps.has_rings for loaded in self._loaded):
            self._reader = own_threads.Thread(target=self._read, name="accel_magic rings of the CPU")
            self._reader.start()

    def _attach(self, loaded: _Loaded, program: EbpfProgram, place: FunctionBinding) -> None:
        error: AccelMagicError
        try:
            attach_place(loaded.linker, place, loaded.source.name)
        except ProbeError as refused:
            error = refused
        except OSError as refused:
            missing = place.raw_tracepoint and refused.errno == errno.ENOENT
            error = no_raw_tracepoint(place) if missing else attach_error(refused)
        else:
            self.notes.append(f"{program.name} ran on the CPU, for all processes' hits of {', '.join(place.names)}")
            if _prints(program):
                self.notes.append(f"the output of {program.name} goes to the kernel's trace_pipe and is not shown here")
            return
        if self._needed or program.name in self._bound:
            raise error
        self.notes.append(_not_attached(program, error))

    def _read(self) -> None:
        while not self._ended.wait(_EVERY_S):
            for loaded in self._loaded:
                loaded.maps.drain()

    def _end(self) -> None:
        """End the thread that drains the rings."""
        self._ended.set()
        if self._reader is not None:
            self._reader.join()

    def detach(self) -> None:
        """Detach all programs, and return when none can run any more; the maps stay until `close`."""
        if self._ended.is_set():
            return
        self._end()
        for loaded in self._loaded:
            if missed := loaded.linker.misses():
                self.notes.append(
                    f"{loaded.source.name}: "
                    + sentence_text(missed, "hits were missed because a program was running on that CPU")
                )
            self.notes += loaded.linker.detach(together=True)
            self.notes += [f"{skip.function} left out: {skip.why}" for skip in loaded.linker.skipped.values()]
            self.notes += loaded.linker.notes()
        if self._loaded:
            bpf_syscalls.wait_for_programs()
        for loaded in self._loaded:
            loaded.maps.drain()

    def contents(self) -> list[MapContent]:
        """Copy the kernel's own maps; may be called while programs run."""
        return [
            content
            for loaded in self._loaded
            for content in loaded.maps.contents(known=[spec.name for spec in loaded.source.object.maps])
        ]

    def all_notes(self) -> list[str]:
        """Return all notes, including those on reading the maps."""
        return [*self.notes, *(note for loaded in self._loaded for note in loaded.maps.notes())]

    def close(self) -> None:
        """Detach, and release everything; may be called again."""
        with ExitStack() as undo:
            for loaded in self._loaded:
                undo.callback(loaded.maps.close)
                undo.callback(loaded.linker.close)
            self._loaded = []
            undo.callback(self._end)


def unavailable() -> MachineError | None:
    """Return why this process may not run programs in the kernel; None if it may."""
    checks = (features.platform_error, features.kernel_error, features.privilege_error)
    return next((error for check in checks if (error := check()) is not None), None)


def _alone(source: GpuSource) -> GpuSource:
    maps = tuple(replace(spec, used_by="gpu") for spec in source.object.maps)
    return replace(source, object=replace(source.object, maps=maps))


_OF_DRIVER: Final = re.compile(r"u(?:ret)?probe:(?:lib)?cuda(?:\.so[.\d]*)?:")
"""Probes of functions of NVIDIA's driver."""


def examined(source: GpuSource, program: EbpfProgram, bound: Sequence[str]) -> str:
    """Describe where a CPU program would be attached, or why it cannot be; attaches nothing."""
    try:
        place, _ = _found(source, program, bound)
    except AccelMagicError as error:
        return _not_attached(program, error)
    return f"{program.name}: on the CPU, at {', '.join(place.names)}"


def _found(source: GpuSource, program: EbpfProgram, bound: Sequence[str]) -> tuple[FunctionBinding, list[str]]:
    """Find a program's place. Raises ProgramError, ProbeError or MachineError if it cannot be attached."""
    if program.name in source.refused:
        raise source.refused[program.name]
    specs = specs_of(program, bound)
    try:
        return find_place(program.name, specs)
    except ProbeError as error:
        if error.code == "probe.no-library" and (calls := next(filter(_OF_DRIVER.match, specs), "")):
            raise _no_driver(program, calls) from None
        raise


def _no_driver(program: EbpfProgram, spec: str) -> ProbeError:
    return ProbeError(
        f"{program.name}={spec}: NVIDIA's driver (libcuda) is not installed",
        why="the simulated device runs this process's kernels without it",
        fix=f"bind a function that the cell calls: {program.name}=uprobe:libc:malloc; or use a machine with a GPU",
        code="probe.no-library",
    )


def _not_attached(program: EbpfProgram, error: AccelMagicError) -> str:
    reason = "; ".join(part for part in (error.why, error.fix, _other_meaning(program)) if part)
    return f"{program.name} ({program.section}) was not attached: {error.what}" + (f" ({reason})" if reason else "")


def _other_meaning(program: EbpfProgram) -> str:
    """Suggest the section for a GPU kernel, which a kprobe may be meant for."""
    kind, _, name = program.section.partition("/")
    kernel = kind in ("kprobe", "kretprobe") and name
    return f'if {name} is a GPU kernel, write SEC("{kind}/cuda_{name}")' if kernel else ""


def _refused(source: GpuSource, program: EbpfProgram, error: ProgramError) -> ProgramError:
    line = line_of(program, error.why)
    where = f"{line.file}:{line.line}: `{line.text.strip()}`\n" if line else ""
    return ProgramError(f"{source.name}: {error.what}", why=f"{where}{error.why}", fix=_CHECK, code=error.code)


def _prints(program: EbpfProgram) -> bool:
    return any(
        each.opcode == isa.CALL and each.src == isa.CALL_HELPER and each.imm in _PRINTING for each in _code([program])
    )


def _both_add(source: GpuSource) -> bool:
    """Whether programs of both sides do atomic operations and share a map."""
    promoted = any(each.verdict.promoted for each in source.gpu)
    sides = ([each.program for each in source.gpu], source.cpu)
    on_gpu, on_cpu = (
        any(each.kind == isa.STX and each.mode == isa.MODE_ATOMIC for each in _code(programs)) for programs in sides
    )
    return any(spec.used_by == "both" for spec in source.object.maps) and on_cpu and (on_gpu or promoted)


def _code(programs: Sequence[EbpfProgram]) -> Iterator[EbpfInstruction]:
    for program in programs:
        for function in program.functions:
            yield from filter(None, function.code)
