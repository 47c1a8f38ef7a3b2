"""The kernel trace of the driver's calls that a GPU trace owns: where it attaches, and what it hands over."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from accel_magic.errors import AccelMagicError, MachineError, ProbeError
from accel_magic.gpu.host_api.own import Stretches
from accel_magic.gpu.recording import NOT_WANTED
from accel_magic.kernel import features
from accel_magic.probes.grammar import parse_all
from accel_magic.probes.match import make_plan
from accel_magic.probes.presets import INSTALL
from accel_magic.probes.presets.cuda import LIBRARY
from accel_magic.session import LiveSession

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from accel_magic.probes.plan import Plan
    from accel_magic.traces.recording import Outcome, Recording

M = TypeVar("M")
HostApiMode = Literal["auto", "on", "off"]
MOST_CALLS: Final = 1_000_000
"""Calls that are kept, of some 150 bytes each; later ones are only counted."""
BUFFER_MIB: Final = 32.0
_SIMULATED: Final = "the device is simulated: --host-api on records calls of the stand-in for its driver"
_WRAPPED: Final = ("module", "context")
"""Kinds of calls in which the shim itself asks the driver for something."""
_FILE: Final = re.compile(r"libcuda\.so\.[\d.]+")


@dataclass(frozen=True)
class HostCalls:
    """What a trace saw of the driver's calls.

    Attributes:
        frame: Columns as in `recording.API`, times on CLOCK_MONOTONIC, without a match to launches; None where calls
            were not recorded.
        lost: Calls whose record was lost.
        notes: What the user should know of them.
        off: Why they were not recorded; '' where they were.

    """

    frame: pd.DataFrame | None = None
    lost: int = 0
    notes: tuple[str, ...] = ()
    off: str = ""


def libraries(*, stand_in: bool = False) -> tuple[Path, ...]:
    """Find every libcuda that this process or its children may call.

    Args:
        stand_in: Whether children find the stand-in, beside what this process has mapped or the loader knows.

    Raises:
        MachineError: There is none, or the stand-in cannot be built.

    """
    from accel_magic.probes.libraries import mapped_files, resolve

    # The file itself is called by the driver's version: libcuda.so.570.86.10.
    found = [file for file in mapped_files(os.getpid()) if _FILE.fullmatch(file.name)]
    if stand_in:
        from accel_magic.gpu.standin.build import library

        found.append(library().resolve())
    try:
        found.append(resolve(LIBRARY, os.getpid()))
    except ProbeError as error:
        if not found:
            raise MachineError(
                f"there is no {LIBRARY} here", why=error.why, fix=INSTALL[LIBRARY], code="cuda.no-driver"
            ) from None
    return tuple(dict.fromkeys(found))


def plan_for(files: Sequence[Path], shim: str = "") -> Plan:
    """Plan the probes of all calls in these libraries.

    Args:
        files: The drivers.
        shim: The library of ours that stands before the driver in child processes; '' for none.

    Raises:
        MachineError: The kernel cannot be traced like that.
        ProbeError: There is no such file.

    """
    specs = [replace(spec, target=str(path)) for path in files for spec in parse_all(["cuda"])]
    if shim:
        specs += [replace(spec, target=shim) for spec in parse_all([f"cuda:{kind}" for kind in _WRAPPED])]
    return make_plan(specs, scope="self", max_events=MOST_CALLS, buffer_mib=BUFFER_MIB)


class HostTrace:
    """The part of a GPU trace that records the driver's calls of this process and its children, where it can.

    `start`, `go`, `stop`; or `abort`. Where it cannot record, all of these do nothing, and `off` says why.

    Args:
        mode: `on`, `off`, or `auto`: on a GPU, where the kernel engine has its privilege and there is a driver.

    """

    def __init__(self, mode: HostApiMode) -> None:
        self.off = ""
        self._mode = mode
        self._session: LiveSession | None = None
        self._own = Stretches()
        self._shim = ""

    def start(self, memory: M, *, simulated: bool, shim: bool = False) -> M:
        """Attach where that is possible.

        Args:
            memory: What the trace reads the device with; these calls of the driver are not the user's.
            simulated: Whether kernels run on the simulated device. Then calls are those of a stand-in for the driver,
                and it takes `on` to watch it: attaching costs more than most such cells.
            shim: Whether a library of ours stands before the driver in child processes.

        Returns:
            What to use instead of `memory`.

        Raises:
            MachineError: Calls were asked for with `on`, and cannot be traced here.
            ProbeError: Likewise.

        """
        self.off = NOT_WANTED if self._mode == "off" else _SIMULATED if simulated and self._mode == "auto" else ""
        if self.off:
            return memory
        try:
            files = libraries(stand_in=simulated)
            features.require_tracing()
            self._shim = _shim() if shim else ""
            session = LiveSession(plan_for(files, self._shim))
            session.start()
        except AccelMagicError as error:
            if self._mode == "on":
                raise
            self.off = _reason(error)
            return memory
        self._session, self._own = session, Stretches()
        return self._own.noting(memory)

    def go(self) -> int:
        """Record from here; the time, CLOCK_MONOTONIC in ns."""
        if self._session is None:
            return time.monotonic_ns()
        self._session.go()
        return self._session.start_ns

    def halt(self) -> None:
        """Record no more calls."""
        if self._session is not None:
            self._session.halt()

    def stop(self, outcome: Outcome) -> HostCalls:
        """Detach, and hand over what was recorded. `outcome` says how the traced code ended."""
        session, self._session = self._session, None
        if session is None:
            return HostCalls(off=self.off)
        try:
            recording = session.stop(outcome)
        except AccelMagicError as error:
            self.off = _reason(error)
            return HostCalls(notes=(f"the host calls are lost: {self.off}",), off=self.off)
        return _calls(recording, self._own, self._shim)

    def abort(self) -> None:
        """Detach; harmless when nothing is attached."""
        session, self._session = self._session, None
        if session is not None:
            session.abort()


def _shim() -> str:
    """The library that stands before the driver in children; '' where it cannot be built, and children have none."""
    from accel_magic.gpu.native.build import library

    try:
        return str(library().resolve())
    except MachineError:
        return ""


def _calls(recording: Recording, own: Stretches, shim: str) -> HostCalls:
    notes = []
    lost, hits = int(recording.lost.sum()), int(recording.hits.sum())
    untimed = int(recording.unpaired.sum())
    waiting = hits - int(recording.histograms.counts.sum()) - untimed
    if recording.limit_reached:
        notes.append(f"of {hits:,} host calls the first {recording.event_count:,} were recorded")
    if lost:
        why = "nothing was read of the ring buffer" if recording.unread else "the ring buffer was full"
        notes.append(f"host calls whose records were lost, for {why}: {lost:,}")
    if untimed:
        notes.append(f"host calls that could not be timed, for too many were under way at once: {untimed:,}")
    if waiting > 0:
        notes.append(f"host calls that had not returned at the end of the trace: {waiting:,}")
    if recording.missed:
        notes.append(f"entries and returns of host calls that the kernel missed: {recording.missed:,}")
    from accel_magic.gpu.host_api.calls import calls_of

    return HostCalls(calls_of(recording, own, shim), lost, tuple(notes))


def _reason(error: AccelMagicError) -> str:
    return f"{error.what}: {error.why}" if error.why else error.what
