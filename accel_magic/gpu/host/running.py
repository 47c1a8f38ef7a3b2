"""The CPU's programs of a GPU trace: loaded before its maps are placed, attached for the cell, gone after it."""

from __future__ import annotations

import errno
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from accel_magic.errors import AccelMagicError, MachineError, ProbeError, ProgramError
from accel_magic.gpu.host.attach_points import specs_of
from accel_magic.gpu.host.code import bytecode, line_of
from accel_magic.gpu.host.kernel_maps import KernelMaps
from accel_magic.gpu.program import isa
from accel_magic.kernel import bpf as syscalls
from accel_magic.kernel import features, own_threads
from accel_magic.kernel.attach.bindings import Place, attach_place, find_place, load_place, no_raw_tracepoint
from accel_magic.kernel.attach.engine import attach_error
from accel_magic.kernel.load.links import Linker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from accel_magic.gpu.maps.content import MapContent
    from accel_magic.gpu.program.isa import Instruction
    from accel_magic.gpu.program.model import Program
    from accel_magic.gpu.program.source import Source

_EVERY_S: Final = 0.02
_PRINTING: Final = (6, 177)
"""bpf_trace_printk and bpf_trace_vprintk."""
_CHECK: Final = "the lines of the kernel's verifier above name the instruction and the rule that it breaks"
_NOT_AS_ONE: Final = (
    "{}: programs of both sides do atomic operations, and both see some of its maps; at one value at the same moment "
    "that is exact only if the GPU has atomics on the host's memory (NVLink, not all of PCI Express): else give each "
    "side a value of its own"
)


@dataclass(frozen=True)
class _Loaded:
    """The programs of one source that have a place."""

    source: Source
    maps: KernelMaps
    linker: Linker
    placed: tuple[tuple[Program, Place], ...]


@dataclass
class HostPrograms:
    """Programs for the CPU around a cell: `load`, `attach`, `detach`, `contents`, `close`.

    Attributes:
        notes: What ran where, what was not attached and why, what got lost.

    """

    notes: list[str] = field(default_factory=list)
    _loaded: list[_Loaded] = field(default_factory=list, repr=False)
    _bound: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)
    _needed: bool = False
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)
    _reader: threading.Thread | None = field(default=None, repr=False)

    @classmethod
    def load(cls, sources: Sequence[Source], bindings: Mapping[str, Sequence[str]], *, simulated: bool) -> HostPrograms:
        """Make the kernel's maps and load what has a place; nothing runs yet.

        A program that this machine cannot run is told in `notes`; it is an error where nothing else was asked for, or
        where the line binds it.

        Args:
            sources: With programs for both sides.
            bindings: Places by program (`accel_magic.kernel.attach.bindings.parse_bindings`).
            simulated: Whether the device is, whose atomic operations are the processor's.

        Raises:
            ProgramError: The kernel refuses a program or a map.
            ProbeError: A binding's place is not there.
            MachineError: Nothing but programs for the CPU was asked for, and this process may not run them.

        """
        made = cls(_bound=bindings, _needed=not any(source.gpu for source in sources))
        try:
            for source in sources:
                if source.cpu:
                    made._load(source)
            made._need_one()
            if not simulated:
                made.notes += [_NOT_AS_ONE.format(each.source.name) for each in made._loaded if _both_add(each.source)]
        except BaseException:
            made.close()
            raise
        return made

    def settled(self, sources: Sequence[Source]) -> tuple[Source, ...]:
        """Give the sources as they run: where no program for the CPU does, maps are the GPU's alone."""
        running = {id(loaded.source) for loaded in self._loaded}
        return tuple(source if id(source) in running else _alone(source) for source in sources)

    def descriptors(self, source: Source) -> Mapping[str, int]:
        """Arrays of a source that the CPU's programs and a GPU share: open descriptors by name."""
        shared = [spec.name for spec in source.object.maps if spec.used_by == "both"]
        found = next((each.maps.descriptors for each in self._loaded if each.source is source), {})
        return {name: found[name] for name in shared if name in found}

    def _need_one(self) -> None:
        if self._needed and not self._loaded:
            raise ProbeError(
                "none of the programs can be attached",
                why="\n".join(self.notes),
                fix="see above",
                code="gpu.nothing-attached",
            )

    def _load(self, source: Source) -> None:
        if (missing := unavailable()) is not None:
            if self._needed:
                raise missing
            self.notes += [_told(program, missing) for program in source.cpu]
            return
        placed = tuple(
            (program, place) for program in source.cpu if (place := self._place(source, program)) is not None
        )
        if not placed:
            return
        shared = [spec for spec in source.object.maps if spec.used_by == "both"]
        maps = KernelMaps.create(source.name, source.kernel_maps, shared)
        linker = Linker({}, {descriptor: descriptor for descriptor in maps.descriptors.values()}, source.object.license)
        self._loaded.append(_Loaded(source, maps, linker, placed))
        for program, place in placed:
            linker.code[program.name] = bytecode(program, maps.descriptors)
            try:
                load_place(linker, place)
            except ProgramError as error:
                raise _refused(source, program, error) from None

    def _place(self, source: Source, program: Program) -> Place | None:
        bound = self._bound.get(program.name, ())
        try:
            place, remarks = _found(source, program, bound)
        except AccelMagicError as error:
            if bound:
                raise
            self.notes.append(_told(program, error))
            return None
        self.notes += [f"{program.name}: {remark}" for remark in remarks]
        return place

    def attach(self) -> None:
        """Let the programs run.

        Raises:
            ProbeError: None of the places of a program that the line binds can be probed.
            MachineError: The kernel refuses altogether, and nothing but these programs was asked for.

        """
        for loaded in self._loaded:
            for program, place in loaded.placed:
                self._attach(loaded, program, place)
        if any(loaded.maps.has_rings for loaded in self._loaded):
            self._reader = own_threads.Thread(target=self._read, name="accel_magic rings of the CPU")
            self._reader.start()

    def _attach(self, loaded: _Loaded, program: Program, place: Place) -> None:
        error: AccelMagicError
        try:
            attach_place(loaded.linker, place, loaded.source.name)
        except ProbeError as refused:
            error = refused
        except OSError as refused:
            missing = place.raw_tracepoint and refused.errno == errno.ENOENT
            error = no_raw_tracepoint(place) if missing else attach_error(refused)
        else:
            self.notes.append(f"{program.name} ran on the CPU, for everybody's hits of {', '.join(place.names)}")
            if _prints(program):
                self.notes.append(f"what {program.name} prints goes to the kernel's trace_pipe and is not shown here")
            return
        if self._needed or program.name in self._bound:
            raise error
        self.notes.append(_told(program, error))

    def _read(self) -> None:
        while not self._ended.wait(_EVERY_S):
            for loaded in self._loaded:
                loaded.maps.drain()

    def _end(self) -> None:
        """End the thread that empties the rings."""
        self._ended.set()
        if self._reader is not None:
            self._reader.join()

    def detach(self) -> None:
        """Return when no program can run any more; what they counted stays until `close`."""
        if self._ended.is_set():
            return
        self._end()
        for loaded in self._loaded:
            if missed := loaded.linker.misses():
                self.notes.append(
                    f"{loaded.source.name}: {missed:,} hits were missed: a program was running on that CPU"
                )
            self.notes += loaded.linker.detach(together=True)
            self.notes += [f"{skip.function} left out: {skip.why}" for skip in loaded.linker.skipped.values()]
            self.notes += loaded.linker.notes()
        if self._loaded:
            syscalls.wait_for_programs()
        for loaded in self._loaded:
            loaded.maps.drain()

    def contents(self) -> list[MapContent]:
        """Copy the kernel's own maps, also while programs run."""
        return [
            content
            for loaded in self._loaded
            for content in loaded.maps.contents(known=[spec.name for spec in loaded.source.object.maps])
        ]

    def told(self) -> list[str]:
        """All notes, those on reading the maps too."""
        return [*self.notes, *(note for loaded in self._loaded for note in loaded.maps.notes())]

    def close(self) -> None:
        """Detach, and give everything back; again is harmless."""
        with ExitStack() as undo:
            for loaded in self._loaded:
                undo.callback(loaded.maps.close)
                undo.callback(loaded.linker.close)
            self._loaded = []
            undo.callback(self._end)


def unavailable() -> MachineError | None:
    """Say why this process may not run programs in the kernel; None where it may."""
    checks = (features.platform_error, features.kernel_error, features.privilege_error)
    return next((error for check in checks if (error := check()) is not None), None)


def _alone(source: Source) -> Source:
    maps = tuple(replace(spec, used_by="gpu") for spec in source.object.maps)
    return replace(source, object=replace(source.object, maps=maps))


def examined(source: Source, program: Program, bound: Sequence[str]) -> str:
    """Say where a program for the CPU would be attached, or why not; nothing is."""
    try:
        place, _ = _found(source, program, bound)
    except AccelMagicError as error:
        return _told(program, error)
    return f"{program.name}: on the CPU, at {', '.join(place.names)}"


def _found(source: Source, program: Program, bound: Sequence[str]) -> tuple[Place, list[str]]:
    """Find a program's place. Raises ProgramError, ProbeError or MachineError where it cannot be attached."""
    if program.name in source.refused:
        raise source.refused[program.name]
    return find_place(program.name, specs_of(program, bound))


def _told(program: Program, error: AccelMagicError) -> str:
    reason = "; ".join(part for part in (error.why, error.fix, _other_meaning(program)) if part)
    return f"{program.name} ({program.section}) was not attached: {error.what}" + (f" ({reason})" if reason else "")


def _other_meaning(program: Program) -> str:
    """What a kprobe's section may have been meant for."""
    kind, _, name = program.section.partition("/")
    kernel = kind in ("kprobe", "kretprobe") and name
    return f'if {name} is a GPU kernel, write SEC("{kind}/cuda_{name}")' if kernel else ""


def _refused(source: Source, program: Program, error: ProgramError) -> ProgramError:
    line = line_of(program, error.why)
    where = f"{line.file}:{line.line}: `{line.text.strip()}`\n" if line else ""
    return ProgramError(f"{source.name}: {error.what}", why=f"{where}{error.why}", fix=_CHECK, code=error.code)


def _prints(program: Program) -> bool:
    return any(
        each.opcode == isa.CALL and each.src == isa.CALL_HELPER and each.imm in _PRINTING for each in _code([program])
    )


def _both_add(source: Source) -> bool:
    """Whether programs of both sides do atomic operations, and both see a map."""
    promoted = any(each.verdict.promoted for each in source.gpu)
    sides = ([each.program for each in source.gpu], source.cpu)
    on_gpu, on_cpu = (
        any(each.kind == isa.STX and each.mode == isa.MODE_ATOMIC for each in _code(programs)) for programs in sides
    )
    return any(spec.used_by == "both" for spec in source.object.maps) and on_cpu and (on_gpu or promoted)


def _code(programs: Sequence[Program]) -> Iterator[Instruction]:
    for program in programs:
        for function in program.functions:
            yield from filter(None, function.code)
