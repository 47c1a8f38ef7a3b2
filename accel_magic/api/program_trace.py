"""The user's own BCC program around a cell or a block: its maps and ring buffers become data frames."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic import machine
from accel_magic.api.block import Block
from accel_magic.broker import broker_socket
from accel_magic.codec import Descriptor
from accel_magic.errors import MachineError, ProbeError
from accel_magic.interrupts import uninterrupted
from accel_magic.kernel import features
from accel_magic.kernel.attach import function_bindings, user_program
from accel_magic.kernel.load import bpf_maps
from accel_magic.recording.program_data import ProgramRecording
from accel_magic.recording.reader import reader_client
from accel_magic.recording.reader.reader_messages import ProgramRings, Ring

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from accel_magic.engine.session import Show
    from accel_magic.kernel.attach.user_program import UserProgram
    from accel_magic.kernel.bcc.compiler import ProgramMap
    from accel_magic.kernel.load.bpf_maps import MapElements
    from accel_magic.recording.reader.reader_client import Prepared
    from accel_magic.recording.recording import Outcome
    from accel_magic.results.program_result import ProgramResult
    from accel_magic.views.program_view import ProgramDryRun

MOST_RING_BYTES = 1 << 30
"""Bytes of records kept, all rings together; beyond this the rings stay full and the program's output fails."""
_STACKS = (bpf_maps.STACK_TRACE,)


@dataclass(frozen=True)
class _Attached:
    """An attached program, and the reader's side of its rings; None if it has no rings."""

    program: UserProgram
    reading: Prepared | None


class ProgramTrace(Block["ProgramResult", _Attached]):
    """A user's BCC program around a block or a function.

    Args:
        path: The C file.
        bindings: `FUNCTION=SPEC` for each function whose name is not an attach point.
        options: Trace options that were given; none is allowed with a program.

    """

    KIND = "ktrace"

    def __init__(
        self, path: str | Path, bindings: tuple[str, ...] = (), options: Mapping[str, Any] | None = None
    ) -> None:
        for name in options or {}:
            option = f"--{name.replace('_', '-')}"
            raise ProbeError(
                f"{option} cannot be used with --program",
                why="the program itself decides what it counts and records, and for which processes",
                fix=f"remove {option} and implement it in the program",
                code="program.option-not-for-program",
            )
        super().__init__()
        self.path = Path(path).expanduser()
        self._given = bindings
        self._bindings = function_bindings.parse_bindings(bindings)
        self._program: UserProgram | None = None
        self._end_ns = 0
        self._started = ""

    def again(self) -> ProgramTrace:
        """Make another trace with the same arguments."""
        return ProgramTrace(self.path, self._given)

    def prepare(self) -> None:
        """Compile the program and find its attach points; nothing is attached yet.

        Raises:
            ProgramError: It cannot be read, does not compile, or has an unsupported map.
            ProbeError: A function has no attach point, or its attach point does not exist.
            MachineError: A privilege, a kernel feature or BCC is missing.

        """
        self._compile()

    def _compile(self) -> UserProgram:
        """Compile the program, as `prepare`."""
        features.require_linux()
        user_program.read_source(self.path)  # report a wrong file name before anything missing on the machine
        if broker_socket.needed():
            raise ProbeError(
                "programs of your own are not allowed through the broker",
                why="they can read and change everything in the kernel that tracing can",
                fix="use probes with --filter and --args, or run Jupyter as root",
                code="broker.not-allowed",
            )
        features.require_tracing()
        with uninterrupted():
            self._undo.close()  # undo an earlier call
            self._program = program = user_program.compile_program(self.path, self._bindings)
            self._undo.callback(program.close)
        return program

    def dry_run(self) -> ProgramDryRun:
        """Return what would be attached. Raises as `prepare` does."""
        from accel_magic.views.program_view import ProgramDryRun

        program = self._compile()
        self.abort()
        return ProgramDryRun(program.name, program.places, program.compiled.maps, program.notes)

    def _attach(self, show: Show | None) -> _Attached:  # noqa: ARG002 - a user's program has no counters to show
        """Load and attach the prepared program, which runs from then on.

        Raises:
            ProgramError: The kernel's verifier rejects a function.
            ProbeError: None of a function's places can be probed.
            MachineError: The kernel refuses to load or attach programs.

        """
        program = self._compile() if self._program is None else self._program
        with uninterrupted():
            program.load()
            reading = None
            if program.rings:
                reading = _prepare_reader(program.rings)
                self._undo.callback(reading.drop)
            program.attach()
        return _Attached(program, reading)

    def go(self) -> None:
        """The traced code starts here; this only sets the start of the result's duration."""
        self._started = datetime.now().astimezone().isoformat(timespec="seconds")
        self.start_ns, self._end_ns = time.monotonic_ns(), 0

    def halt(self) -> None:
        """Record the end time; the program runs until it is detached."""
        self._end_ns = self._end_ns or time.monotonic_ns()

    def _finish(self, attached: _Attached, outcome: Outcome, value: object) -> ProgramResult:
        remaining = attached.program.detach()
        recording = self._read(attached, self._end_ns, outcome, remaining)
        from accel_magic.results.program_result import ProgramResult  # importing it earlier would be traced

        return ProgramResult(recording, value)

    def _read(self, attached: _Attached, end_ns: int, outcome: Outcome, remaining: tuple[str, ...]) -> ProgramRecording:
        program = attached.program
        rings: tuple[NDArray[np.uint8], ...] = ()
        notes = [*program.notes, *remaining]
        if attached.reading is not None:
            try:
                rings = attached.reading.stop(self.start_ns, end_ns).rings
            except MachineError as error:
                rings = tuple(np.empty(0, np.uint8) for _ in program.rings)
                notes.append(f"{error.what} ({error.why}): the records of all rings are lost; the maps are complete")
            if sum(len(ring) for ring in rings) >= MOST_RING_BYTES:
                notes.append(
                    f"recording stopped at {MOST_RING_BYTES >> 20:,} MiB: later records of the program are missing"
                )
        maps = []
        for described in program.compiled.maps:
            if described.type == bpf_maps.RINGBUF:
                continue
            if described.type in bpf_maps.READABLE:
                maps.append((replace(described, fd=-1), _content(described)))
            else:
                what = "a stack trace map" if described.type in _STACKS else "of a kind that cannot be read as a table"
                notes.append(f"the map {described.name} is left out: it is {what}")
        notes += [f"{skip.function} left out: {skip.why}" for skip in program.skipped]
        return ProgramRecording(
            program=program.name,
            machine=machine.describe(),
            started=self._started,
            places=program.places,
            duration_ns=end_ns - self.start_ns,
            maps=tuple(maps),
            rings=tuple((replace(ring, fd=-1), data) for ring, data in zip(program.rings, rings, strict=True)),
            histograms=program.histograms,
            log2=program.log2,
            missed=program.misses(),
            outcome=outcome,
            notes=tuple(notes),
        )


def trace_program(path: str | Path, *bindings: str) -> ProgramTrace:
    """Run your own BCC program around a block.

    ```python
    with accel_magic.trace_program("sizes.bpf.c", "on_malloc=uprobe:libc:malloc") as t:
        work()
    t.result.maps["sizes"]
    ```

    Args:
        path: The C file, as for BCC.
        *bindings: `FUNCTION=SPEC` for each function whose name is not an attach point; the specs are those of the
            `%%ktrace` line, and `raw_tracepoint:NAME`.

    Raises:
        ProgramError: On entering: the file cannot be read or compiled, or the kernel's verifier rejects a function.
        ProbeError: On entering: a binding is invalid, or a function has no attach point.
        MachineError: On entering: a privilege, a kernel feature or BCC is missing.

    """
    return ProgramTrace(path, bindings)


def _prepare_reader(rings: tuple[ProgramMap, ...]) -> Prepared:
    read = tuple(Ring(map=Descriptor(ring.fd), size=ring.entries) for ring in rings)
    return reader_client.shared().prepare(ProgramRings(rings=read, most_bytes=MOST_RING_BYTES))


def _content(described: ProgramMap) -> MapElements:
    try:
        return bpf_maps.read(described)
    except OSError as error:
        raise MachineError(
            f"the map {described.name} cannot be read",
            why=os.strerror(error.errno or 0),
            fix="run `python -m accel_magic doctor` to find the missing privilege",
            code="program.map-unreadable",
        ) from None
